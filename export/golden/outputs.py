"""What a case expects beside what our code made: one result an expected output."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from export.golden.case import GoldenCase
from export.golden.compare import OutputResult, Tolerance, absent, compare


def compare_outputs(
    case: GoldenCase,
    produced: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    tolerance: Callable[[str], Tolerance] | None = None,
) -> list[OutputResult]:
    """In the order of `expected`; an output our code does not make fails. tolerance: None, the case's own."""
    bound = case.tolerance if tolerance is None else tolerance
    return [
        compare(name, produced[name], wanted, bound(name))
        if name in produced
        else absent(name, "no such output in our network", wanted)
        for name, wanted in expected.items()
    ]


def forecast_first(case: GoldenCase, produced: Mapping[str, Tensor], output: str = "forecast") -> list[OutputResult]:
    """A forecaster's outputs, the forecast before its intermediates; outputs the JSON promises must be there."""
    stored = case.group("output")
    expected = {name: stored[name] for name in sorted(stored, key=lambda name: (name != output, name))}
    missing = [name for name in case.document.get("outputs", {}) if name not in stored]
    return compare_outputs(case, produced, expected) + [
        absent(name, "named in the JSON, missing in the safetensors file") for name in missing
    ]
