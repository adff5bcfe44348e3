"""Golden cases of Balance-Marking on real texts: token ids and availability in, messages, counts and p-values out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult, Tolerance, compare
from models.balance_marking.config import MarkingConfig
from models.balance_marking.counting import count_all, leaders
from models.balance_marking.decoder import first_of_each_pair
from models.balance_marking.partition import message_bases, prefix_seeds
from models.balance_marking.significance import count_distribution, p_value, poisson_binomial
from models.balance_marking.votes import Counts, TableVotes


def readings(case: GoldenCase) -> Iterator[OutputResult]:
    """Three lines a text: decoded messages, counts, p-values; over all positions and over different pairs."""
    bound = Tolerance(0.0, float(case.document.get("tolerance", {}).get("p_value", {}).get("rtol", 1e-4)))
    config = _config(case)
    for item in case.document["items"]:
        yield from _reading(case, item, config, bound)


def _reading(case: GoldenCase, item: dict[str, Any], config: MarkingConfig, bound: Tolerance) -> Iterator[OutputResult]:
    name, unique = item["id"], item["unique"]
    ids, votes = _votes(case, name, config)
    positions = list(range(config.window, len(ids) - 1))
    rows = [position - config.window for position in first_of_each_pair(ids, positions, config)]
    once = TableVotes(votes.bases[rows], votes.table[rows])
    messages, counts, p_values = [], [], []
    for some, stated in ((votes, item), (once, unique)):
        counted = count_all(some.merged(), config.messages)
        first, second = leaders(counted, None, 2)
        messages.append(_one_of_the_best(counted, int(stated["decoded_message"]), first.message))
        counts += [first.count, second.count, some.positions]
        p_values.append(p_value(count_distribution(some.terms()), first.count, config.messages))
    coin = poisson_binomial(np.full(votes.positions, 0.5))
    p_values.append(p_value(coin, counts[0], config.messages))
    wanted = [s[key] for s in (item, unique) for key in ("top_count", "second_count", "scored")]
    stated_p = [item["p_value_all_positions"], unique["p_value"], item["p_value_naive_half"]]
    decoded = [item["decoded_message"], unique["decoded_message"]]
    exact = Tolerance(0.0)
    yield compare(f"{name}.decoded_message", torch.tensor(messages), torch.tensor(decoded), exact)
    yield compare(f"{name}.counts", torch.tensor(counts), torch.tensor(wanted), exact)
    wide = torch.float64
    yield compare(f"{name}.p_value", torch.tensor(p_values, dtype=wide), torch.tensor(stated_p, dtype=wide), bound)


def _one_of_the_best(counts: Counts, stated: int, ours: int) -> int:
    """Among equal counts any message may be named; the count itself is compared too."""
    return stated if 0 <= stated < len(counts) and counts[stated] == counts[ours] else ours


def _votes(case: GoldenCase, name: str, config: MarkingConfig) -> tuple[list[int], TableVotes]:
    try:
        ids: list[int] = case.tensors[f"input.{name}.ids"].tolist()
        table = case.tensors[f"input.{name}.permutation_available"].numpy().astype(np.int32)
    except KeyError as error:
        raise CaseError(f"{case.tensors_path.name}: {error} is missing") from error
    positions = list(range(config.window, len(ids) - 1))
    if table.shape != (len(positions), config.permutations):
        told = f"permutation_available of {name} is {list(table.shape)}"
        raise CaseError(f"{case.path.name}: {told}, expected {[len(positions), config.permutations]}")
    return ids, TableVotes(message_bases(prefix_seeds(ids, positions, config), config), table)


def _config(case: GoldenCase) -> MarkingConfig:
    said, bits = case.config, int(case.config["message_code_len"])
    return MarkingConfig(
        vocabulary=2,  # the partition itself is given
        key=int(said.get("wm_seed", 42)),
        message_bits=bits,
        tokens_per_bit=float(said.get("encode_ratio", 10.0)),
        window=int(said.get("lm_prefix_len", 10)),
        hash_window=int(said.get("hash_prefix_len", 1)),
        permutations=int(said.get("random_permutation_num", 100)),
    )
