"""Golden cases of RIA (one matrix, or a tiny Llama pruned layer by layer) and of channel permutation.

Official patterns name the number PRUNED of M; `kept` of ours is M minus that. Where the official code leaves a hyper-
parameter unsaid, its command line's default holds: a = 0.5, half the weights, importance "sum".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult, Tolerance, Verdict, absent, compare
from export.golden.kept import allowed_by, compare_kept
from export.golden.llama import case_logits, case_network
from models.llm.blocks import decoder_layers, matrix_name
from models.llm.walk import enter, run_layer
from models.pruning.activations import InputStatistics
from models.pruning.channel_permutation import Search, find_order, keep_in_order, retained
from models.pruning.layerwise import Pruned, Recipe, prune_layer
from models.pruning.pattern import NM, Pattern, PerOutput, WholeMatrix
from models.pruning.permuted_linear import PermutedLinear
from models.pruning.reconstruction import reconstruct
from models.pruning.ria import POWER
from models.pruning.scoring import score_named

HALF = 0.5
SAME_PRODUCT = Tolerance(1e-5, 1e-4)  # float32 sums in another order


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises CaseError where a case is unusable."""
    if case.system == "channel_permutation":
        return list(_permutations(case))
    return list(_network(case) if "num_hidden_layers" in case.config else _matrix(case))


def _matrix(case: GoldenCase) -> Iterator[OutputResult]:
    """One linear layer: statistics, scores, masks, reconstructed weights."""
    weight, statistics = _weight(case), _calibrated(case, with_gram=True)
    power, modes = float(case.config.get("activation_power_a", POWER)), case.config.get("modes", {})
    for name, expected in sorted(case.group("output").items()):
        kind, _, rest = name.partition(".")
        if kind == "scaler_row":
            yield compare(name, statistics.energy, expected, _relative(case, "scaler_rtol"))
        elif kind == "score":
            score = score_named(rest).of(weight, statistics.energy, power)
            yield compare(name, score, expected, _relative(case, "score_rtol"))
        elif kind in ("keep_mask", "weight") and rest in modes:
            mode = modes[rest]
            score = score_named(mode["prune_method"]).of(weight, statistics.energy, power)
            keep = _pattern(mode["pattern"], case).keep(score)
            if kind == "keep_mask":
                yield compare_kept(name, keep, expected, allowed_by(mode.get("min_relative_margin")))
            else:
                yield compare(name, _reconstructed(weight, statistics, keep), expected, _reconstruction(case))
        else:
            yield absent(name, "nothing here computes this output", expected)


def _permutations(case: GoldenCase) -> Iterator[OutputResult]:
    """Orders and masks of one matrix under every mode; the order itself is compared where it is unique."""
    weight, statistics = _weight(case), _calibrated(case)
    method, power = case.config.get("prune_method", "ria"), float(case.config.get("activation_power_a", POWER))
    score = score_named(method).of(weight, statistics.energy, power)
    orders: dict[str, Tensor] = {}
    for name, expected in sorted(case.group("output").items()):
        kind, _, rest = name.partition(".")
        mode = case.config.get("modes", {}).get(rest)
        if kind == "scaler_row":
            yield compare(name, statistics.energy, expected, Tolerance(0.0, 1e-5))
        elif kind == "score":
            yield compare(name, score, expected, Tolerance(0.0, 1e-5))
        elif kind in ("permutation", "keep_mask") and mode:
            if rest not in orders:
                orders[rest] = find_order(score, _official_nm(mode), _search(mode, case))
            if kind == "permutation" and not mode["linear_sum_assignment"]:
                yield compare(name, orders[rest], expected, Tolerance(0.0))
            else:
                yield _judge_order(name, expected, weight, score, orders[rest], mode, case)
        else:
            yield absent(name, "nothing here computes this output", expected)


def _judge_order(
    name: str, expected: Tensor, weight: Tensor, score: Tensor, order: Tensor, mode: dict[str, Any], case: GoldenCase
) -> OutputResult:
    """An order holds if its mask obeys the pattern, keeps as much score, and runs to the masked layer's product."""
    pattern = _official_nm(mode)
    keep = keep_in_order(score, pattern, order)
    loss = 1 - retained(score, keep) / float(mode["retained_score"])
    allowed = float(case.document.get("tolerance", {}).get("retained_score_rtol", 1e-4))
    problem = f"retained score is {loss:.2e} of it below the official one" if loss > allowed else ""
    if not pattern.obeyed_by(keep[:, order].float()):
        problem = f"the mask does not obey {pattern} under the permutation"
    elif not _runs_alike(weight * keep, order, case.group("input")["calibration"]):
        problem = "y = W[:,p] x[p] differs from the masked layer"
    if not mode["linear_sum_assignment"] and name.startswith("keep_mask") and not problem:
        return compare_kept(name, keep, expected, 0)
    verdict: Verdict = "fail" if problem else "ok"
    bound = f"score within {allowed:.0e}"
    shape = tuple(expected.shape)
    return OutputResult(
        output=name, verdict=verdict, shape=shape, max_rel=max(loss, 0.0), tolerance=bound, detail=problem
    )


def _runs_alike(masked: Tensor, order: Tensor, inputs: Tensor) -> bool:
    direct = inputs @ masked.T
    permuted = PermutedLinear(masked[:, order], order)(inputs)
    return compare("product", permuted, direct, SAME_PRODUCT).verdict == "ok"


def _network(case: GoldenCase) -> Iterator[OutputResult]:
    """A tiny Llama pruned layer by layer in every mode, then run on the test sequences."""
    expected, test_ids = case.group("output"), _input(case, "test_ids")
    bound = Tolerance(
        float(case.document["tolerance"]["logits_atol"]), float(case.document["tolerance"]["logits_rtol"])
    )
    if "dense.logits" in expected:
        yield compare("dense.logits", case_logits(case_network(case), test_ids), expected["dense.logits"], bound)
    for mode, settings in case.config.get("modes", {}).items():
        network, recipe = case_network(case), _recipe(settings, case)
        kept = _prune_network(network, _input(case, "calibration_ids"), recipe)
        for name in sorted(name for name in expected if name.startswith(f"{mode}.keep_mask.")):
            parameter = name.removeprefix(f"{mode}.keep_mask.")
            yield compare_kept(name, kept[parameter], expected[name], int(expected[name].numel() * 0.001))
            if not recipe.reconstruct:
                _force(network, case, parameter, expected[name])
        yield compare(f"{mode}.logits", case_logits(network, test_ids), expected[f"{mode}.logits"], bound)


def _prune_network(network: nn.Module, ids: Tensor, recipe: Recipe) -> dict[str, Tensor]:
    """Masks by parameter name."""
    entry = enter(network, ids)
    hidden, kept = entry.hidden, dict[str, Tensor]()
    for index, layer in enumerate(decoder_layers(network)):
        outcomes: list[Pruned] = prune_layer(layer, hidden, entry.arguments[index], recipe)
        hidden = run_layer(layer, hidden, entry.arguments[index])
        kept |= {matrix_name(index, outcome.name): outcome.keep for outcome in outcomes}
    return kept


@torch.no_grad()
def _force(network: nn.Module, case: GoldenCase, parameter: str, mask: Tensor) -> None:
    """The official mask on the case's weights: logits are comparable for equal masks only, and ties may differ."""
    network.get_parameter(parameter).copy_(case.group("state")[parameter] * mask)


def _recipe(settings: dict[str, Any], case: GoldenCase) -> Recipe:
    """A mode's own settings first, then the case's, then the command line's defaults."""
    said = case.config | settings
    method, power = said.get("prune_method", "ria"), float(said.get("activation_power_a", POWER))
    reconstructs = bool(said.get("reconstruction", False))
    if not settings.get("pruned"):
        rule = PerOutput if said.get("per_outneuron", method == "wanda") else WholeMatrix
        pattern = rule(float(said.get("sparsity_ratio", HALF)))
        return Recipe(method=method, pattern=pattern, power=power, reconstruct=reconstructs)
    permuted = {"linear_sum_assignment": settings.get("lsa")} | settings
    search = _search(permuted, case) if settings.get("reallocation") else None
    return Recipe(method=method, pattern=_official_nm(settings), power=power, search=search, reconstruct=reconstructs)


def _search(mode: dict[str, Any], case: GoldenCase) -> Search:
    return Search(
        importance=mode.get("importance_score", "sum"),
        assignment=bool(mode["linear_sum_assignment"]),
        blocks=int(case.config.get("assignment_blocks", 1)),
        sparsity=float(case.config.get("sparsity_ratio", HALF)),
    )


def _official_nm(mode: dict[str, Any]) -> NM:
    return NM(int(mode["of"]) - int(mode["pruned"]), int(mode["of"]))


def _pattern(words: str, case: GoldenCase) -> Pattern:
    """The pattern as a case spells it."""
    if found := re.fullmatch(r"(\d+) pruned of every (\d+) consecutive inputs", words):
        return NM(int(found[2]) - int(found[1]), int(found[2]))
    share = float(case.config.get("sparsity_ratio", HALF))
    if words in ("whole matrix", "per output row"):
        return WholeMatrix(share) if words == "whole matrix" else PerOutput(share)
    raise CaseError(f'{case.path.name}: pattern "{words}" is not known')


def _reconstructed(weight: Tensor, statistics: InputStatistics, keep: Tensor) -> Tensor:
    assert statistics.gram is not None
    return reconstruct(weight, statistics.gram, keep)


def _weight(case: GoldenCase) -> Tensor:
    state = case.group("state")
    if "weight" not in state:
        raise CaseError(f"{case.tensors_path.name}: state.weight is missing")
    return state["weight"]


def _input(case: GoldenCase, name: str) -> Tensor:
    inputs = case.group("input")
    if name not in inputs:
        raise CaseError(f"{case.tensors_path.name}: input.{name} is missing")
    return inputs[name]


def _calibrated(case: GoldenCase, *, with_gram: bool = False) -> InputStatistics:
    """Statistics of the case's sequences, fed one by one."""
    sequences = _input(case, "calibration")
    statistics = InputStatistics(sequences.shape[-1], with_gram=with_gram)
    for sequence in sequences:
        statistics.add(sequence)
    return statistics


def _relative(case: GoldenCase, name: str) -> Tolerance:
    return Tolerance(0.0, float(case.document.get("tolerance", {}).get(name, 1e-5)))


def _reconstruction(case: GoldenCase) -> Tolerance:
    stated = case.document["tolerance"]
    return Tolerance(float(stated["reconstructed_weight_atol"]), float(stated["reconstructed_weight_rtol"]))
