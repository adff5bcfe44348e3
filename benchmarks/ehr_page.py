"""docs/ehr-benchmarks.md and its calibration plot, written from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.ehr_scores import Calibration, Score, TaskScores

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "ehr-benchmarks.md", DOCS / "ehr-calibration.png"
THROUGHPUT = DOCS / "ehr-throughput.md"

_HEAD = """# Health records: benchmarks

Written by `python -m benchmarks.ehr --write`.

## Held-out ranking

Synthetic patients of `data/ehr`: 755 trained on, 104 to choose penalties, 216 held out. Each adult is asked about after
up to four days chosen by chance; a question counts for a task whose event has not happened yet. Time-dependent C (0.5:
chance, 1: perfect), events later than nine tenths of the training events censored there. Every predictor reads the same
events: the network in order, Cox regression (lifelines, L2) as log counts of the same dictionary tokens and age.
In parentheses 95 % intervals over {resamples} resamples of the held-out patients, the same for all predictors.

| task | questions | events | {names} |
|---|---|---|{rules}
"""

_TAIL = """
Adapters less Cox: {gain}. With 216 patients, differences of 0.05 are noise; the records come from a generator whose
rules are simple. Nothing here speaks of real patients.

## Calibration

![Predicted against observed risk](ehr-calibration.png)

Ten groups of rising predicted risk at the median time of a task's training events; observed is Kaplan-Meier. On the
diagonal, predictions are right on average.

| task | years | mean predicted | observed |
|---|---|---|---|
{calibrations}
"""


def write_page(
    tasks: Mapping[str, TaskScores],
    calibrations: Mapping[str, Calibration],
    means: Mapping[str, Score],
    gain: Score,
    resamples: int,
) -> None:
    """Replace the page and the plot."""
    names = list(means)
    head = _HEAD.format(resamples=resamples, names=" | ".join(names), rules="---|" * len(names))
    rows = [_row(task, one, names) for task, one in tasks.items()]
    mean = f"| **mean** | | | {' | '.join(str(means[name]) for name in names)} |"
    found = "\n".join(_calibration_row(task, one) for task, one in calibrations.items())
    PAGE.write_text(head + "\n".join([*rows, mean]) + "\n" + _TAIL.format(gain=gain, calibrations=found))
    plot(calibrations, PLOT)


def _row(task: str, one: TaskScores, names: list[str]) -> str:
    cells = " | ".join(str(one.scores[name]) for name in names)
    return f"| {_words(task)} | {one.questions} | {one.events} | {cells} |"


def _calibration_row(task: str, one: Calibration) -> str:
    predicted, observed = one.overall
    return f"| {_words(task)} | {one.days / 365.25:.1f} | {predicted:.3f} | {observed:.3f} |"


def _words(task: str) -> str:
    return task.replace("_", " ")


def plot(calibrations: Mapping[str, Calibration], path: Path) -> None:
    """One small plot a task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 5, figsize=(13, 5.6), layout="constrained")
    for ax, (task, one) in zip(axes.flat, calibrations.items(), strict=True):
        top = 1.05 * max(one.predicted.max(), one.observed.max())
        ax.plot([0, top], [0, top], color="0.7", linewidth=1)
        ax.plot(one.predicted, one.observed, "o", markersize=4)
        ax.set(xlim=(0, top), ylim=(0, top), title=f"{_words(task)}, {one.days / 365.25:.1f} years")
        ax.title.set_size(9)
        ax.tick_params(labelsize=8)
    figure.supxlabel("predicted risk, mean of a tenth", size=9)
    figure.supylabel("observed risk (Kaplan-Meier)", size=9)
    figure.savefig(path, dpi=90, metadata={"Software": None})
    pyplot.close(figure)
