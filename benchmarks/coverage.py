"""How many truths the served intervals hold: ETTh1's whole test split through the endpoint, and what /metrics says.

    python -m benchmarks.coverage [--url http://127.0.0.1:3000] [--write-docs]

Every window is forecast with intervals by the Python client; its truth is sent when its last hour has passed. Exit
status: 0 the gauges agree with the client's own count, 1 they do not.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

import httpx
import numpy as np
import pandas as pd
import typer
from pressroom_client import BacktestOptions, BacktestResult, Client

from benchmarks.command import run
from benchmarks.report import replace_measured, table
from benchmarks.server import ROOT, gateway, use_own_store

MODELS = "itransformer-etth1,card-etth1,lift-itransformer-etth1,lift-card-etth1,arm-etth1"
LEVELS = (50, 80, 90, 95)  # that both kinds of interval have; the gauges watch them
BETWEEN = tuple(range(50, 100, 5))  # that split intervals are judged by besides
METHODS = ("adaptive", "split")  # in this order: the other way round the adaptive ones would start out taught
SAME = 0.05  # points between gauge and client: the server keeps forecasts in float32
FIRST, END = 11_520, 14_400  # ETTh1's test rows
HEADINGS = (
    "model, intervals", "50 %", "80 %", "90 %", "95 %", "most off, 50 to 95 %", "steps at 80 %", "width at 80 %",
    "width at 95 %", "gauge is off by",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One kind of interval of one model; gauge: the server's own coverage by level, percent."""

    model: str
    method: str
    result: BacktestResult
    gauge: dict[int, float]

    def coverage(self, level: int) -> float:
        return 100 * self.result.overall.coverage[level]

    @property
    def gauge_error(self) -> float:
        """Points the gauge is off at most."""
        return max(abs(self.coverage(level) - self.gauge[level]) for level in LEVELS)


def main(
    url: Annotated[str | None, typer.Option(help="Measure a fresh running server instead of starting one.")] = None,
    models: Annotated[str, typer.Option(help="Served forecasters, comma separated.")] = MODELS,
    rows: Annotated[str, typer.Option(metavar="FIRST:END", help="Test rows.")] = f"{FIRST}:{END}",
    write_docs: Annotated[bool, typer.Option(help="Write the table into docs/forecasting.md.")] = False,
) -> None:
    """Measure the coverage of the served forecasters' intervals."""
    first, end = map(int, rows.split(":"))
    use_own_store()
    with ExitStack() as stack:
        if url is None:
            from pressroom.bundled import press_bundled

            press_bundled(plugins=True)
            url = stack.enter_context(gateway()).url
        client = stack.enter_context(Client(url))
        measured = [
            measure(client, url, rows_of_test(first, end, look_back_of(client, model)), model, method)
            for model in models.split(",")
            for method in METHODS
        ]
    lines = [_row(one) for one in measured]
    print(table(HEADINGS, lines))
    if write_docs:
        replace_measured(ROOT / "docs" / "forecasting.md", "coverage", table(HEADINGS, lines))
    if max(one.gauge_error for one in measured) >= SAME:
        raise typer.Exit(1)


def look_back_of(client: Client, model: str) -> int:
    """Rows a served forecaster reads."""
    return int(client.metadata(model).inputs[0].shape[1])


def rows_of_test(first: int = FIRST, end: int = END, look_back: int = 96) -> pd.DataFrame:
    """The test rows with the look-back before them."""
    from pressroom.bundled import TRAINING_CSV

    return pd.read_csv(TRAINING_CSV).iloc[first - look_back : end]


def measure(client: Client, url: str, frame: pd.DataFrame, model: str, method: str) -> Measured:
    """One kind of interval of one model, over every window of the frame."""
    request = {"interval": method}
    levels = BETWEEN if method == "split" else LEVELS
    options = BacktestOptions(stride=1, levels=levels, truths=True, request=request, scale=_scale())
    result = client.backtest(frame, model=model, options=options)
    return Measured(model, method, result, gauges(url, model, method))


def _scale() -> dict[str, float]:
    """Training rows' standard deviations: what errors and widths of different columns are averaged in."""
    from pressroom.bundled import TRAINING_CSV

    training = pd.read_csv(TRAINING_CSV).iloc[:8640].select_dtypes("number")
    return {str(name): float(value) for name, value in training.std(ddof=0).items()}


def gauges(url: str, model: str, method: str) -> dict[int, float]:
    """What /metrics says the coverage is so far, percent by level."""
    found = {}
    for line in httpx.get(f"{url}/metrics", timeout=30).text.splitlines():
        if not line.startswith("pressroom_forecast_coverage_ratio{"):
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if (labels["model"], labels["method"]) == (model, method):
            found[int(labels["level"])] = 100 * float(line.rpartition(" ")[2])
    return found


def _row(one: Measured) -> list[str]:
    steps = [100 * step.coverage[80] for step in one.result.by_step]
    return [
        f"{one.model}, {one.method}",
        *(f"{one.coverage(level):.1f}" for level in LEVELS),
        f"{max((one.coverage(level) - level for level in one.result.upper), key=abs):+.1f}",
        f"{min(steps):.1f} to {max(steps):.1f}",
        *(f"{np.mean(one.result.upper[level] - one.result.lower[level]):.2f}" for level in (80, 95)),
        f"{one.gauge_error:.2f}",
    ]


if __name__ == "__main__":
    run(main, "python -m benchmarks.coverage --write-docs")
