"""The search of `pressroom tune`: coordinate descent over lists of values, each point measured on a server of its own.

A point is better than another if it keeps the latency limit and the other does not; if both do, by its rate; if
neither does, by its latency. A step has to gain MARGIN, which is what two measurements of one point differ by.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Value = int | float
Point = tuple[tuple[str, Value], ...]  # settings in the grid's order
MARGIN = 0.05


@dataclass(frozen=True)
class Trial:
    """One measured point.

    rate    answers a second; a language model's: tokens
    p99_ms  of all answers
    fault   why the point is no choice, e.g. failed requests; "" if it is one
    """

    point: Point
    rate: float
    p99_ms: float
    stable: bool
    fault: str = ""

    def meets(self, limit_ms: float) -> bool:
        return not self.fault and self.p99_ms <= limit_ms


def better(one: Trial, other: Trial, limit_ms: float) -> bool:
    """Whether `one` is better by more than chance."""
    if one.fault or other.fault:
        return not one.fault
    if one.meets(limit_ms) != other.meets(limit_ms):
        return one.meets(limit_ms)
    if one.meets(limit_ms):
        return one.rate > other.rate * (1 + MARGIN)
    return one.p99_ms < other.p99_ms * (1 - MARGIN)


class Search:
    """Coordinate descent; every point is measured once."""

    def __init__(
        self,
        grid: Mapping[str, Sequence[Value]],
        limit_ms: float,
        measure: Callable[[Point], Trial],
        may_go_on: Callable[[], bool],
        seed: int = 0,
    ) -> None:
        self._grid, self._limit, self._measure, self._may_go_on = grid, limit_ms, measure, may_go_on
        self._random = random.Random(seed)
        self.trials: dict[Point, Trial] = {}

    def run(self, start: Mapping[str, Value]) -> Trial:
        """The best point found from `start`, which is measured in any case."""
        best = self._try(tuple((name, start[name]) for name in self._grid))
        improved = True
        while improved and self._may_go_on():
            improved = False
            for name in self._random.sample(list(self._grid), len(self._grid)):
                found = self._along(best, name)
                improved |= found is not best
                best = found
        return best

    def _along(self, best: Trial, name: str) -> Trial:
        """Steps in one setting, upwards and downwards, as long as they gain."""
        for step in (1, -1):
            while self._may_go_on():
                point = self._neighbour(best.point, name, step)
                found = None if point is None else self._try(point)
                if found is None or not better(found, best, self._limit):
                    break
                best = found
        return best

    def _neighbour(self, point: Point, name: str, step: int) -> Point | None:
        """The next value of a setting; None at the end of its list."""
        values, known = self._grid[name], dict(point)
        at = values.index(known[name]) + step
        return tuple((known | {name: values[at]}).items()) if 0 <= at < len(values) else None

    def _try(self, point: Point) -> Trial:
        if point not in self.trials:
            self.trials[point] = self._measure(point)
        return self.trials[point]
