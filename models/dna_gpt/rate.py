"""A share with its confidence interval: kept apart from what computes it, which servers do not need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """All three from 0 to 1."""

    value: float
    low: float
    high: float
