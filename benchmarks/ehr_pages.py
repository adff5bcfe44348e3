"""docs/ehr-benchmarks.md, its calibration plot, and docs/ehr-throughput.md, written from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.ehr_scores import Calibration, Score, TaskScores

if TYPE_CHECKING:
    from benchmarks.ehr_throughput import Load, Neighbour

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "ehr-benchmarks.md", DOCS / "ehr-calibration.png"
THROUGHPUT = DOCS / "ehr-throughput.md"

_HEAD = """# Health records: benchmarks

Written by `python -m benchmarks.ehr --write-docs`.

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
Adapters less Cox: {gain}. Better than chance by their intervals: {above}.
With 216 patients, differences of 0.05 are noise; the records come from a generator whose rules are simple. Nothing
here speaks of real patients.

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
    above = ", ".join(_words(task) for task, one in tasks.items() if one.scores["adapter"].low > 0.5)
    tail = _TAIL.format(gain=gain, above=above or "none", calibrations=found)
    PAGE.write_text(head + "\n".join([*rows, mean]) + "\n" + tail)
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


_THROUGHPUT = """# Health records: throughput

Written by `python -m benchmarks.ehr_throughput --write-docs`.

{machine}

{patients} patients drawn from the 1,075 of `data/ehr` (median {median} events, the largest {largest}), one a request
with its whole record as JSON, from closed-loop clients over HTTP. Two gateways on the same cores take turns: one joins
patients into batches, one answers one by one. Load generator and servers share the machine. Medians of the rounds.

| clients | server | patients/s | p50, ms | p99, ms | server CPU a patient, ms | padding |
|---|---|---|---|---|---|---|
{rows}

Batched against one by one, patients a second: {ratios} clients. One patient is hundreds of positions, which keep
a core busy alone: on a CPU joining patients saves little. Padding is the share of computed positions that belong to
nobody: lengths are rounded up to buckets.

## Beside the largest patient

Four clients with patients of under 600 events, alone and then together with one client that keeps sending the patient
of {largest} events:

| | median, ms | slowest, ms | longest wait for the network, ms |
|---|---|---|---|
| small patients alone | {n.alone_p50_ms:.0f} | {n.alone_worst_ms:.0f} | {n.alone_queue_ms:.0f} |
| small patients beside the largest | {n.beside_p50_ms:.0f} | {n.beside_worst_ms:.0f} | {n.beside_queue_ms:.0f} |

The largest patient itself takes {n.largest_ms:.0f} ms (median), its batch at most {n.largest_inference_ms:.0f} ms in
the network: events beyond the network's reach are cut off, which changes nothing, so it costs a batch like others.
Reading its events shares the interpreter with its neighbours.
"""


def write_throughput(
    loads: Mapping[tuple[str, int], Load], neighbour: Neighbour, lengths: list[int], machine: Mapping[str, str]
) -> None:
    """Replace the page."""
    clients = sorted({count for _, count in loads})
    rows = [_load_row(count, name, loads[name, count]) for count in clients for name in ("batched", "one by one")]
    ratios = [loads["batched", n].patients_a_second / loads["one by one", n].patients_a_second for n in clients]
    said = ", ".join(f"{ratio:.2f} at {count}" for ratio, count in zip(ratios, clients, strict=True))
    facts = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    THROUGHPUT.write_text(
        _THROUGHPUT.format(
            machine=facts,
            patients=len(lengths),
            median=lengths[len(lengths) // 2],
            largest=f"{lengths[-1]:,}",
            rows="\n".join(rows),
            ratios=said,
            n=neighbour,
        )
    )


def _load_row(clients: int, name: str, load: Load) -> str:
    figures = f"{load.patients_a_second:.0f} | {load.p50_ms:.0f} | {load.p99_ms:.0f} | {load.cpu_ms:.1f}"
    return f"| {clients} | {name} | {figures} | {load.padding:.0%} |"
