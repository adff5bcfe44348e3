"""Survival curves; only this module draws them, and it needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._ehr_types import TaskPrediction

POINTS = 200
BEYOND = 1.2  # how far a curve goes on, in last horizons


def plot_survival(curves: Sequence[tuple[str, TaskPrediction]], ax: Axes | None, until_days: float | None) -> Axes:
    """Curves with their names, horizons as dots; returns the axes."""
    axes = _axes() if ax is None else ax
    for name, one in curves:
        end = until_days or BEYOND * float(one.horizons_days.max())
        days = np.linspace(0, end, POINTS)
        (line,) = axes.plot(days, one.hazard.survival(days), label=name)
        shown = one.horizons_days <= end
        axes.plot(one.horizons_days[shown], one.survival[shown], "o", color=line.get_color())
    axes.set(xlabel="days since the prediction time", ylabel="probability that it has not happened", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    axes.legend()
    return axes


def _axes() -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        hint = 'pip install "pressroom-client[plot]", or read .hazard.survival(days)'
        raise UsageError("curves need matplotlib, which is not installed", hint=hint) from error
    axes: Axes = pyplot.subplots()[1]
    return axes
