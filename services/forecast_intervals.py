"""Intervals of a served forecaster: what a request asks for, half-widths, and what truths teach.

Split-conformal intervals are the artifact's and never change. Adaptive ones follow the truths this server was sent:
the same request may get other intervals tomorrow, so they are only given to who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.forecasting import aci
from models.forecasting.aci import Adaptive
from models.forecasting.conformal import Conformal
from models.forecasting.series import Window
from services.forecast_memory import Issued, Memory
from services.forecast_metrics import METHODS, CoverageMetrics

SPLIT, ADAPTIVE = METHODS
MOST_LEVELS = 20

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Wish:
    """The intervals a request asks for: nominal coverage in percent, ascending, and which kind."""

    levels: tuple[int, ...]
    method: str


class Intervals:
    """The intervals of one model version."""

    def __init__(self, name: str, version: str, conformal: Conformal, memory: Memory) -> None:
        self.conformal = conformal
        self.name, self.version = name, version
        self._memory = memory
        self._alpha_shape = (len(aci.LEVELS), *conformal.quantiles.shape[1:])
        self._watched = np.stack([conformal.at(np.full(self._alpha_shape[1:], level)) for level in aci.LEVELS])
        self._metrics: CoverageMetrics | None = None

    def announce(self) -> None:
        """Create the gauges: the model is ready to serve."""
        self._metrics = CoverageMetrics(self.name, self.version, aci.LEVELS, self._gauges)

    def retire(self) -> None:
        """No longer served. The gauges read this object: let go of them, or both wait for the collector."""
        if self._metrics is not None:
            self._metrics.retire()
            self._metrics = None

    def read(self, levels: Any, method: Any) -> Wish | None:
        """The wish of a request's fields `levels` and `interval`. Raises InputError."""
        if method is not None and method not in METHODS:
            message = f"interval is {str(method)[:20]!r}"
            raise InputError("invalid_request", message, field="interval", hint=f"one of {', '.join(METHODS)}")
        if levels is None:
            return None
        chosen = SPLIT if method is None else method
        known = self.conformal.levels[:-1] if chosen == SPLIT else aci.LEVELS
        if not isinstance(levels, list) or not 0 < len(levels) <= MOST_LEVELS:
            hint = "e.g. [80, 95]"
            message = f"levels must be a list of 1 to {MOST_LEVELS} percentages"
            raise InputError("invalid_request", message, field="levels", hint=hint)
        for index, level in enumerate(levels):
            if type(level) is not int or level not in known or level in levels[:index]:
                message = f"level {str(level)[:20]} is " + ("repeated" if level in levels[:index] else "not known")
                shown = (
                    f"whole percentages {known[0]} to {known[-1]}" if len(known) > 20 else ", ".join(map(str, known))
                )
                hint = f"{chosen} intervals have {shown}"
                raise InputError("invalid_request", message, field=f"levels[{index}]", hint=hint)
        return Wish(tuple(sorted(levels)), chosen)

    def factors(self, wish: Wish) -> npt.NDArray[np.float64]:
        """Half-widths in units of a window's difficulty, [levels, H, C]."""
        if wish.method == SPLIT:
            return np.stack([self.conformal.quantile(level) for level in wish.levels]).astype(np.float64)
        found = self._adaptive().quantiles()
        return np.stack([found[aci.LEVELS.index(level)] for level in wish.levels])

    def _issued_radii(self, wish: Wish, radii: Floats) -> npt.NDArray[np.float32] | None:
        """What to keep of adaptive half-widths [levels, H, C]: one layer for every watched level."""
        if wish.method == SPLIT:
            return None
        kept = np.full(self._alpha_shape, np.nan, dtype=np.float32)
        for level, layer in zip(wish.levels, radii, strict=True):
            kept[aci.LEVELS.index(level)] = layer
        return kept

    def keep(
        self, wish: Wish, windows: Sequence[Window], forecasts: Sequence[Floats], request: str, step: int
    ) -> list[npt.NDArray[np.float64]]:
        """Half-widths [levels, H, C] of each window's intervals; the forecasts are kept until their truth comes.

        request  the request's id; "" keeps nothing
        step     seconds of one step, at most
        """
        factors = self.factors(wish)
        scales = self.conformal.difficulty(np.stack([window.history for window in windows]))
        radii = [factors * scale for scale in scales]
        if request:
            issued = [
                Issued(
                    version=self.version,
                    request=request,
                    position=position,
                    series=window.id,
                    last=None if window.axis is None else int(window.axis.steps[-1]),
                    forecast=forecasts[position].astype(np.float32),
                    scale=scales[position].astype(np.float32),
                    radii=self._issued_radii(wish, radii[position]),
                    scored=np.zeros(forecasts[position].shape, dtype=np.bool_),
                )
                for position, window in enumerate(windows)
            ]
            self._memory.keep(self.name, issued, 2.0 * step * len(forecasts[0]))
        return radii

    def learn(self, met: Sequence[tuple[Issued, Floats]]) -> None:
        """Compare truths [H, C], NaN where none came, with the forecasts they met. Call within the memory's change.

        Cells that had met their truth before must be NaN.
        """
        adaptive = self._adaptive()
        counts: dict[str, list[tuple[int, int, int]]] = {SPLIT: [], ADAPTIVE: []}
        for one, truth in met:
            known = np.isfinite(truth)
            error = np.abs(truth - one.forecast)
            scores = error / one.scale
            counts[SPLIT] += _counts(scores <= self._watched, known)
            if one.radii is not None:
                asked = np.isfinite(one.radii[:, 0, 0])
                every = _counts(error <= one.radii, known)
                counts[ADAPTIVE] += [count for count, yes in zip(every, asked, strict=True) if yes]
            adaptive.update(scores)
            self._memory.scored(one, one.scored | known)
            if self._metrics is not None:
                self._metrics.truths.inc(int(known.sum()))
        for method, found in counts.items():
            self._memory.compared(self.name, self.version, method, found)
        self._memory.set_alpha(self.name, self.version, adaptive.alpha)

    def coverage(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Truths inside and in all, by method and level: the latest this server was sent."""
        return self._memory.coverage(self.name, self.version)

    def _adaptive(self) -> Adaptive:
        alpha = self._memory.alpha(self.name, self.version, self._alpha_shape)
        return Adaptive(self.conformal) if alpha is None else Adaptive(self.conformal, alpha)

    def _gauges(self) -> tuple[dict[tuple[str, int], float], int]:
        shares = {key: covered / total for key, (covered, total) in self.coverage().items() if total}
        return shares, self._memory.kept(self.name, self.version)


def _counts(inside: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Level, truths inside, truths in all, of every watched level. inside [levels, H, C], known [H, C]."""
    total = int(known.sum())
    return [(level, int((layer & known).sum()), total) for level, layer in zip(aci.LEVELS, inside, strict=True)]
