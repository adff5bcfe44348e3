"""Do two outputs agree? Elementwise |difference| <= atol + rtol * |expected|; integers and booleans exactly.

Shapes must be equal. NaN agrees with NaN and infinity with the same infinity, at the same place only. Differences are
taken in float64, so that comparing adds no rounding of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Verdict = Literal["ok", "fail", "error", "unsupported"]


@dataclass(frozen=True)
class Tolerance:
    """Largest |difference| allowed at an element: atol + rtol * |expected|."""

    atol: float
    rtol: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.atol < math.inf and 0 <= self.rtol < math.inf):
            raise ValueError(f"a tolerance is finite and not negative, got atol {self.atol}, rtol {self.rtol}")

    def __str__(self) -> str:
        return f"{self.atol:.3g} + {self.rtol:.3g}*|x|" if self.rtol else f"{self.atol:.3g}"


@dataclass(frozen=True, kw_only=True)
class OutputResult:
    """One line of a verification: one output of one case, or the reason why a case has none.

    max_abs, max_rel  largest absolute difference, and largest difference relative to |expected|; None = not compared;
                      infinity = NaN or infinity on one side only
    """

    output: str
    verdict: Verdict
    shape: tuple[int, ...] = ()
    max_abs: float | None = None
    max_rel: float | None = None
    tolerance: str = ""
    detail: str = ""  # what is wrong, empty when nothing is


def compare(output: str, actual: Tensor, expected: Tensor, tolerance: Tolerance) -> OutputResult:
    """Compare one output; `tolerance` is not used for integers and booleans, which must be equal."""
    shape = tuple(expected.shape)
    if actual.shape != expected.shape:
        detail = f"shape {list(actual.shape)}, expected {list(shape)}"
        return OutputResult(output=output, verdict="fail", shape=shape, tolerance=str(tolerance), detail=detail)
    exact = not (expected.is_floating_point() or expected.is_complex())
    if exact and (actual.is_floating_point() or actual.is_complex()):
        detail = f"dtype {actual.dtype}, expected {expected.dtype}"
        return OutputResult(output=output, verdict="fail", shape=shape, tolerance="exact", detail=detail)
    bound = Tolerance(0.0) if exact else tolerance
    return _judge(output, actual, expected, bound, label="exact" if exact else str(tolerance))


def absent(output: str, detail: str, expected: Tensor | None = None) -> OutputResult:
    """The line of an output that one side does not have."""
    shape = () if expected is None else tuple(expected.shape)
    return OutputResult(output=output, verdict="fail", shape=shape, detail=detail)


def _judge(output: str, actual: Tensor, expected: Tensor, bound: Tolerance, label: str) -> OutputResult:
    wide = torch.complex128 if expected.is_complex() else torch.float64
    got, want = actual.detach().cpu().to(wide), expected.detach().cpu().to(wide)
    same = (got == want) | (torch.isnan(got) & torch.isnan(want))
    distance = torch.where(same, 0.0, (got - want).abs())
    distance = torch.where(torch.isnan(distance), math.inf, distance)  # NaN on one side only
    size = torch.where(torch.isfinite(want), want.abs(), 0.0)
    wrong = int((distance > bound.atol + bound.rtol * size).sum())
    relative = torch.where(size > 0, distance / size.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    return OutputResult(
        output=output,
        verdict="fail" if wrong else "ok",
        shape=tuple(expected.shape),
        max_abs=_largest(distance),
        max_rel=_largest(relative),
        tolerance=label,
        detail=f"{wrong} of {distance.numel()} values outside the tolerance" if wrong else "",
    )


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
