"""Golden cases of the LLM Surgeon: a tiny Llama, one or several shots, curvature, costs, kept sets, weights, logits.

Kept sets of one shot must be equal; of several, at most 1 % of all structures may differ, and weights are compared
where both kept them. Entries of factors are sums that may nearly cancel: beside their own relative tolerance they get
a hundredth of it relative to the largest entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult, Tolerance, absent, compare
from export.golden.kept import compare_kept
from export.golden.llama import case_logits, case_network
from models.llm.blocks import decoder_layers, matrix_name, projections
from models.pruning.llm_surgeon.costs import DAMPING
from models.pruning.llm_surgeon.curvature import Curvature, collect
from models.pruning.llm_surgeon.shots import STRUCTURES, WEIGHTS, Costs, Parts, Surgeon, costs_of, cut_all
from models.pruning.llm_surgeon.update import Correction
from models.pruning.pattern import NM

ONE_SHOT_WEIGHT, MULTI_SHOT_WEIGHT = 2e-3, 1e-2  # largest absolute difference of a weight
MULTI_SHOT_KEPT = 0.01  # share of structures that may fall the other way
NOISE = 0.01
STRUCTURED = {"row", "column"}


@dataclass
class Answers:
    """What our surgeon answers to a case."""

    dense_logits: Tensor
    logits: Tensor
    weights: dict[str, Tensor]  # by parameter name
    curvature: dict[str, Curvature]  # first shot, by parameter name
    costs: dict[str, Costs]  # first shot


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises CaseError where a case asks for another variant of the method."""
    surgeon = _surgeon(case)
    answers = _operate(case, surgeon)
    allowed = _differing_allowed(case, answers, surgeon)
    expected = case.group("output")
    return [_judge(name, expected, answers, surgeon, allowed, case) for name in sorted(expected)]


def _operate(case: GoldenCase, surgeon: Surgeon) -> Answers:
    network = case_network(case)
    matrices: dict[str, nn.Linear] = {
        matrix_name(index, one.name): one.linear
        for index, layer in enumerate(decoder_layers(network))
        for one in projections(layer)
    }
    inputs = case.group("input")
    sequences = [ids[None] for ids in inputs["calibration_ids"]]
    dense = case_logits(network, inputs["test_ids"])
    first: dict[str, Curvature] = {}
    costs: dict[str, Costs] = {}
    for target in surgeon.targets():
        curvature = collect(network, matrices, sequences, len(sequences))
        if not first:
            first = curvature
            costs = {name: costs_of(linear.weight, curvature[name], surgeon) for name, linear in matrices.items()}
        for _ in cut_all(matrices, curvature, surgeon, target):
            pass
    weights = {name: linear.weight.detach() for name, linear in matrices.items()}
    return Answers(dense, case_logits(network, inputs["test_ids"]), weights, first, costs)


def _surgeon(case: GoldenCase) -> Surgeon:
    config = case.config
    asked = {
        "curvature": "kfac",
        "kronecker_rank": 1,
        "independent_activations_derivatives": True,
        "schedule": "linear",
    }
    for name, known in asked.items():
        if config.get(name, known) != known:
            raise CaseError(f"{case.path.name}: {name} is {config[name]!r}, the surgeon here knows {known!r} only")
    if config.get("fisher", "empirical") != "empirical":
        raise CaseError(
            f"{case.path.name}: fisher is {config['fisher']!r}; sampled labels cannot be repeated elsewhere"
        )
    return Surgeon(
        sparsity=float(config["target_sparsity"]),
        parts=_parts(config.get("pruned_structures", []), case),
        shots=int(config.get("shots", 1)),
        damping_inputs=float(config.get("damp_a", DAMPING)),
        damping_outputs=float(config.get("damp_g", DAMPING)),
        correction=Correction(
            together=int(config.get("max_correlate", 0)), additive=bool(config.get("addupdate", False))
        ),
    )


def _parts(structures: list[str], case: GoldenCase) -> Parts:
    if set(structures) == STRUCTURED:
        return STRUCTURES
    if structures == ["element"]:
        return WEIGHTS
    if structures == ["2:4"]:
        return NM(2, 4)
    raise CaseError(f"{case.path.name}: pruned_structures {structures} are not known")


def _judge(
    name: str, expected: dict[str, Tensor], answers: Answers, surgeon: Surgeon, allowed: int, case: GoldenCase
) -> OutputResult:
    """One output, by the kind its name begins with."""
    want = expected[name]
    stated: dict[str, Any] = case.document["tolerance"]
    if name.endswith("logits"):
        ours = answers.dense_logits if name == "dense.logits" else answers.logits
        return compare(name, ours, want, Tolerance(float(stated["logits_atol"])))
    kind, _, place = name.removeprefix("shot1.").partition(".")
    parameter = place if place.endswith(".weight") else f"{place}.weight"
    if parameter not in answers.weights:
        return absent(name, "nothing here computes this output", want)
    if kind in ("row_kept", "column_kept"):
        return compare_kept(name, _alive(answers.weights[parameter], kind), want, allowed)
    if kind == "weight":
        return _compare_weight(name, answers.weights[parameter], want, surgeon, allowed)
    found = _first_shot(kind, answers.curvature[parameter], answers.costs[parameter])
    if found is None:
        return absent(name, "nothing here computes this output", want)
    if kind.endswith("curvature"):
        share = float(stated["curvature_rtol"])
        return compare(name, found, want, Tolerance(NOISE * share * float(want.abs().max()), share))
    return compare(name, found, want, Tolerance(0.0, float(stated["cost_rtol"])))


def _first_shot(kind: str, curvature: Curvature, costs: Costs) -> Tensor | None:
    inputs, outputs = curvature.factors()
    if isinstance(costs, tuple):
        rows, columns = costs
        known = {"row_cost": rows, "column_cost": columns}
    else:
        known = {"element_cost": costs}
    return ({"input_curvature": inputs, "output_curvature": outputs} | known).get(kind)


def _alive(weight: Tensor, kind: str) -> Tensor:
    return (weight != 0).any(dim=1 if kind == "row_kept" else 0)


def _compare_weight(name: str, ours: Tensor, want: Tensor, surgeon: Surgeon, allowed: int) -> OutputResult:
    """Kept sets first (of single weights), then values where both kept the weight."""
    if surgeon.parts != STRUCTURES:
        kept = compare_kept(name, ours, want, allowed)
        if kept.verdict != "ok":
            return kept
    both = (ours != 0) & (want != 0)
    bound = Tolerance(ONE_SHOT_WEIGHT if surgeon.shots == 1 else MULTI_SHOT_WEIGHT)
    return compare(name, torch.where(both, ours, 0.0), torch.where(both, want, 0.0), bound)


def _differing_allowed(case: GoldenCase, answers: Answers, surgeon: Surgeon) -> int:
    """Structures (or weights) that may differ in one output: none after one shot, else what 1 % of the case leaves."""
    if surgeon.shots == 1:
        return 0
    if surgeon.parts != STRUCTURES:
        return int(MULTI_SHOT_KEPT * sum(weight.numel() for weight in answers.weights.values()))
    whole = int(MULTI_SHOT_KEPT * sum(sum(weight.shape) for weight in answers.weights.values()))
    differing = 0
    for name, want in case.group("output").items():
        kind, _, parameter = name.partition(".")
        if kind in ("row_kept", "column_kept") and parameter in answers.weights:
            differing += int((_alive(answers.weights[parameter], kind) != (want != 0)).sum())
    return whole if differing <= whole else 0
