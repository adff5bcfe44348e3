"""Windows of a measurement: what was counted in each, and whether the last ones agree."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

AGREEING = 3  # windows


@dataclass
class Window:
    """What one window counted.

    latencies  seconds of good answers, from sending to the last byte
    failed     failures by status and code
    lateness   largest delay of a scheduled request by the generator itself, seconds
    own_cpu    CPU seconds the generator used
    """

    seconds: float = 0.0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    failed: Counter[str] = field(default_factory=Counter)
    lateness: float = 0.0
    own_cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def percentile_ms(self, percent: float) -> float:
        """Of the good answers' latencies, in ms; NaN of none."""
        return 1e3 * percentile(self.latencies, percent)

    def figures(self, *, closed: bool) -> tuple[float, ...]:
        """What has to agree: the median latency and, where the server sets the pace, answers a second."""
        return (self.percentile_ms(50), self.rate) if closed else (self.percentile_ms(50),)

    def said(self) -> str:
        """One line for people."""
        return f"{self.rate:,.0f}/s, p99 {self.percentile_ms(99):.1f} ms"

    def add(self, other: Self) -> None:
        """Count what another window counted."""
        self.seconds += other.seconds
        self.latencies.extend(other.latencies)
        self.failed += other.failed
        self.lateness = max(self.lateness, other.lateness)
        self.own_cpu += other.own_cpu


AnyWindow = TypeVar("AnyWindow", bound=Window)


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: the smallest value that at least `percent` % of the values do not exceed; NaN of nothing."""
    if not values:
        return math.nan
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def agree(figures: Sequence[Sequence[float]], tolerance: float) -> bool:
    """Whether the last AGREEING windows do: each figure of each within `tolerance` of its mean over them."""
    last = figures[-AGREEING:]
    if len(last) < AGREEING or not all(math.isfinite(value) for window in last for value in window):
        return False
    return all(spread(values) <= tolerance for values in zip(*last, strict=True))


def spread(values: Sequence[float]) -> float:
    """Largest distance from the mean, as a share of it; values are > 0."""
    mean = sum(values) / len(values)
    return max(abs(value - mean) for value in values) / mean


def joined(windows: Sequence[AnyWindow]) -> AnyWindow:
    """Several windows as one; there is at least one."""
    whole = type(windows[0])()
    for window in windows:
        whole.add(window)
    return whole
