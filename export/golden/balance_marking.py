"""Golden cases of Balance-Marking: hashes, random and balanced partitions, marked texts, and readings of real texts.

Which kind a case is shows in what it holds. The official decoder leaves a text's last token out, so the cases do too.
Where a partition's mask differs, the cumulative probability must be within 1e-5 of the half: there the order of
summation decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult, Tolerance, absent, compare
from export.golden.marked_text import beam_search, generate, vocabulary_map
from export.golden.proxy_network import FOUND_AGAIN, CaseProxy, ProxyNetwork
from export.golden.readings import readings
from models.balance_marking.config import MarkingConfig
from models.balance_marking.counting import count_all, leaders
from models.balance_marking.decoder import merged, split_positions
from models.balance_marking.encoder import Marker
from models.balance_marking.hashing import mix, permutations, tuple_hash
from models.balance_marking.partition import (
    HALF,
    BalancedPartition,
    Partition,
    RandomPartition,
    permutation_index,
    permutation_seeds,
    prefix_seeds,
)
from models.balance_marking.votes import PairVotes

EXACT = Tolerance(0.0)
NEAR_HALF = 1e-5


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises CaseError where a case is unusable."""
    if "items" in case.document:
        return list(readings(case))
    if "input.keys" in case.tensors:
        return list(_primitives(case))
    if "input.proxy_probs" in case.tensors:
        return list(_balanced(case))
    return list(_random(case))


def official_config(case: GoldenCase) -> MarkingConfig:
    """Our configuration of the case's official hyper-parameters."""
    said, bits = case.config, int(case.config["message_code_len"])
    hashed = int(said.get("hash_prefix_len", 1))
    return MarkingConfig(
        vocabulary=int(said.get("proxy_vocab", said.get("vocab", 2))),
        key=int(said.get("wm_seed", 42)),
        message_bits=bits,
        tokens_per_bit=float(said["encode_ratio"] if "encode_ratio" in said else said["encode_len"] / bits),
        delta=float(said.get("delta", 1.5)),
        window=int(said.get("lm_prefix_len", hashed)),
        hash_window=hashed,
        permutations=int(said.get("random_permutation_num", 100)),
        top_k=int(said.get("top_k", 1000)),
    )


def _primitives(case: GoldenCase) -> Iterator[OutputResult]:
    inputs = case.group("input")
    for name, expected in case.group("output").items():
        if name == "hash":
            yield compare(name, torch.from_numpy(mix(inputs["keys"].numpy())), expected, EXACT)
        elif shuffle := re.fullmatch(r"shuffle_n(\d+)", name):
            ours = permutations(inputs["shuffle_keys"].numpy(), int(shuffle[1]))
            yield compare(name, torch.from_numpy(ours), expected, EXACT)
        else:
            yield absent(name, "nothing here computes this output", expected)
    if "tuples" in case.document:
        hashes = [tuple_hash(values) for values in case.document["tuples"]]
        yield compare("tuple_hash", torch.tensor(hashes), torch.tensor(case.document["tuple_hash"]), EXACT)


def _balanced(case: GoldenCase) -> Iterator[OutputResult]:
    if case.config.get("strategy", "vanilla") != "vanilla":
        raise CaseError(f'{case.path.name}: strategy "{case.config["strategy"]}" is not known (known: vanilla)')
    config, network = official_config(case), ProxyNetwork(case)
    partition = BalancedPartition(config, CaseProxy(network, decoding=True))
    ids = case.tensors["input.proxy_ids"].tolist()
    positions = _scored(ids, config)
    seeds, all_messages = prefix_seeds(ids, positions, config), np.arange(config.messages)
    index, table = permutation_index(seeds, all_messages, config), partition.table(ids, positions)
    permuted = np.stack([permutation_seeds(int(seed), config) for seed in seeds])
    available = np.take_along_axis(table, index, axis=1)
    ours: dict[str, Any] = {
        "prefix_seed": seeds,
        "permutation_index": index,
        "permutation_seed": permuted,
        "shuffle_first": permutations(permuted[0], config.vocabulary),
        "log_p": (available * config.delta).astype(np.float32),
    }
    expected = case.group("output")
    computed, recorded = (
        network.read(list(network.recorded), decoding=True),
        torch.stack(list(network.recorded.values())),
    )
    yield compare("proxy_probs", computed, recorded, Tolerance(FOUND_AGAIN))
    for name in sorted(ours.keys() & expected.keys()):
        yield compare(name, torch.from_numpy(ours[name]), expected[name], _stated(case, "scores", 1e-5))
    if "available_mask" in expected:
        yield _mask(case, partition, ids, expected["available_mask"])
    mapped = vocabulary_map(case)
    encoder = BalancedPartition(config, CaseProxy(network, decoding=False))
    yield from _texts(case, Marker(encoder, tuple(case.config["message"]), mapped))
    if "plain_generated_ids" in expected:
        plain = expected["plain_generated_ids"].numpy()
        yield from _decoded(case, partition, (plain if mapped is None else mapped[plain]).tolist(), "plain_")
    yield from _decoded(case, partition, ids, "")


def _texts(case: GoldenCase, marker: Marker) -> Iterator[OutputResult]:
    """The marked steps, and the texts generated with the mark and without."""
    expected = case.group("output")
    if "scores_after" in expected:
        generated, steps = expected["generated_ids"].tolist(), case.config["steps"]
        before = case.tensors["input.scores_before"].clone()
        for row, step in zip(before, steps, strict=False):
            marker(case.tensors["input.prompt_ids"].tolist(), generated[:step], row.numpy())
        yield compare("scores_after", before, expected["scores_after"], _stated(case, "scores", 1e-5))
    for name, one in (("generated_ids", marker), ("plain_generated_ids", None)):
        if name in expected:
            text = generate(case, len(expected[name]), one)
            yield compare(name, torch.tensor(text), expected[name], EXACT)


def _random(case: GoldenCase) -> Iterator[OutputResult]:
    config, ids = official_config(case), case.tensors["input.ids"].tolist()
    partition = RandomPartition(config, stride=int(case.config.get("max_vocab_size_constant", 100_000)))
    expected, votes = case.group("output"), partition.votes(ids, _scored(ids, config))
    if "log_p" in expected:
        rows = np.zeros((votes.positions, config.messages), np.int32)
        for row, base, token in zip(rows, votes.bases, votes.tokens, strict=True):
            single = PairVotes(np.array([base]), np.array([token]), votes.stride)
            single.add(np.arange(config.messages), row)
        ours = torch.from_numpy((rows * config.delta).astype(np.float32))
        yield compare("log_p", ours, expected["log_p"], _stated(case, "scores", 1e-5))
    if "available_mask" in expected:
        yield _mask(case, partition, ids, expected["available_mask"])
    if "generated_ids" in expected:
        yield from _beams(case, partition, expected)
    yield from _decoded(case, partition, ids, "")


def _beams(case: GoldenCase, partition: RandomPartition, expected: dict[str, Tensor]) -> Iterator[OutputResult]:
    """The text, and the first rows of scores with the beams' own texts as contexts."""
    before = case.tensors.get("input.scores_before", torch.empty(0))
    marker, after, computed = Marker(partition, tuple(case.config["message"])), before.clone(), before.clone()
    row = 0

    def seen(generated: list[int], scores: Tensor, marked: Tensor) -> None:
        nonlocal row
        if row < len(before):
            computed[row] = scores
            marker([], generated, after[row].numpy())
        row += 1

    beams = int(case.config.get("num_beams", 1))
    text = beam_search(case, len(expected["generated_ids"]), marker, beams, seen)
    yield compare("generated_ids", torch.tensor(text), expected["generated_ids"], EXACT)
    if "scores_after" in expected:
        yield compare("scores_before", computed, before, _stated(case, "scores", 1e-5))
        yield compare("scores_after", after, expected["scores_after"], _stated(case, "scores", 1e-5))


def _decoded(case: GoldenCase, partition: Partition, ids: list[int], which: str) -> Iterator[OutputResult]:
    """Counts of every message by segment, decoded messages, and the official confidence."""
    expected = case.group("output").get(f"{which}counts")
    if expected is None:
        return
    config, counts = partition.config, []
    for positions in split_positions(len(ids) - 1, config, len(expected)):
        counts.append(count_all(merged(partition.votes(ids, positions)), config.messages))
    yield compare(f"{which}counts", torch.from_numpy(np.stack(counts)).long(), expected, EXACT)
    decoded = case.document.get("decoded", {})
    best = [leaders(one, None, 2) for one in counts]
    if f"{which}messages" in decoded:
        messages = torch.tensor([first.message for first, _ in best])
        yield compare(f"{which}messages", messages, torch.tensor(decoded[f"{which}messages"]), EXACT)
    if f"{which}confidence" in decoded:
        stated = decoded[f"{which}confidence"]
        ours = torch.tensor([[first.count, first.count - second.count] for first, second in best])
        official = torch.tensor([[one["count"], one["margin_to_second"]] for one in stated])
        yield compare(f"{which}confidence", ours, official, EXACT)
        softmax = torch.tensor([float(1 / np.exp(one - float(one.max())).sum()) for one in counts])
        wanted = torch.tensor([one["softmax_of_count"] for one in stated])
        yield compare(f"{which}softmax_of_count", softmax, wanted, _stated(case, "scores", 1e-5))


def _mask(case: GoldenCase, partition: Partition, ids: list[int], expected: Tensor) -> OutputResult:
    """[positions, messages, vocabulary]: equal, but for tokens at which the cumulative probability meets the half."""
    positions, messages = _scored(ids, partition.config), case.config["mask_messages"]
    tokens = np.arange(expected.shape[-1])
    rows = [[partition.available(ids[:p], m, tokens) for m in messages] for p in positions]
    ours = torch.from_numpy(np.array(rows)).to(expected.dtype)
    if isinstance(partition, BalancedPartition) and ours.shape == expected.shape:
        for k, m, token in (ours != expected).nonzero().tolist():
            if abs(_cumulative(partition, ids[: positions[k]], messages[m], token) - HALF) < NEAR_HALF:
                ours[k, m, token] = expected[k, m, token]
    return compare("available_mask", ours, expected, EXACT)


def _cumulative(partition: BalancedPartition, before: list[int], message: int, token: int) -> float:
    """The probability along a message's permutation up to and with a token."""
    config = partition.config
    seed = prefix_seeds(before, [len(before)], config)
    index = permutation_index(seed, np.array([message]), config)[0]
    [order] = permutations(permutation_seeds(int(seed[0]), config)[index], config.vocabulary)
    guess = partition.proxy(tuple(before[-partition.proxy.window :]))
    place = int(np.flatnonzero(order == token)[0])
    return float(np.isin(guess.tokens, order[: place + 1]) @ guess.weights)


def _scored(ids: Sequence[int], config: MarkingConfig) -> list[int]:
    return list(range(config.window, len(ids) - 1))


def _stated(case: GoldenCase, name: str, otherwise: float) -> Tolerance:
    stated = case.document.get("tolerance")
    found = stated.get(name, {}) if isinstance(stated, dict) else {}
    return Tolerance(float(found.get("atol", otherwise)), float(found.get("rtol", 0.0)))
