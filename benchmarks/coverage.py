"""How many truths the served intervals hold: ETTh1's whole test split through the endpoint, and what /metrics says.

    python -m benchmarks.coverage [--url http://127.0.0.1:3000] [--write-docs]

Every window is forecast with intervals by the Python client; its truth is sent when its last hour has passed. Exit
status: 0 the gauges agree with the client's own count, 1 they do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

import httpx
import numpy as np
import pandas as pd
import typer
from pressroom_client import BacktestOptions, BacktestResult, Client

from benchmarks.report import replace_measured, table
from benchmarks.server import ROOT, gateway, use_own_store

MODELS = "itransformer-etth1,card-etth1"
LEVELS = (50, 80, 90, 95)
METHODS = ("adaptive", "split")  # in this order: the other way round the adaptive ones would start out taught
SAME = 0.05  # points between gauge and client: the server keeps forecasts in float32
FIRST, END, LOOK_BACK = 11_520, 14_400, 96  # ETTh1's test rows
HEADINGS = ("model, intervals", "nominal", "coverage", "gauge", "lowest and highest step", "mean width")


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
    def agrees(self) -> bool:
        return all(abs(self.coverage(level) - self.gauge[level]) < SAME for level in LEVELS)


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

            press_bundled()
            url = stack.enter_context(gateway()).url
        client = stack.enter_context(Client(url))
        measured = measure(client, url, rows_of_test(first, end), models.split(","))
    lines = [row for one in measured for row in _rows(one)]
    print(table(HEADINGS, lines))
    if write_docs:
        replace_measured(ROOT / "docs" / "forecasting.md", "coverage", table(HEADINGS, lines))
    if not all(one.agrees for one in measured):
        raise typer.Exit(1)


def rows_of_test(first: int = FIRST, end: int = END) -> pd.DataFrame:
    """The test rows with the look-back before them."""
    from pressroom.bundled import TRAINING_CSV

    return pd.read_csv(TRAINING_CSV).iloc[first - LOOK_BACK : end]


def measure(client: Client, url: str, frame: pd.DataFrame, models: Sequence[str]) -> list[Measured]:
    """Both kinds of interval of every model."""
    return [_measure(client, url, frame, model, method) for model in models for method in METHODS]


def _measure(client: Client, url: str, frame: pd.DataFrame, model: str, method: str) -> Measured:
    request = {"interval": method}
    options = BacktestOptions(stride=1, levels=LEVELS, truths=True, request=request, scale=_scale(frame))
    result = client.backtest(frame, model=model, options=options)
    return Measured(model, method, result, _gauges(url, model, method))


def _scale(frame: pd.DataFrame) -> dict[str, float]:
    """Training rows' standard deviations: what errors and widths of different columns are averaged in."""
    from pressroom.bundled import TRAINING_CSV

    training = pd.read_csv(TRAINING_CSV).iloc[:8640].select_dtypes("number")
    return {str(name): float(value) for name, value in training.std(ddof=0).items()}


def _gauges(url: str, model: str, method: str) -> dict[int, float]:
    found = {}
    for line in httpx.get(f"{url}/metrics", timeout=30).text.splitlines():
        if not line.startswith("pressroom_forecast_coverage_ratio{"):
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if (labels["model"], labels["method"]) == (model, method):
            found[int(labels["level"])] = 100 * float(line.rpartition(" ")[2])
    return found


def _rows(one: Measured) -> list[list[str]]:
    return [
        [
            f"{one.model}, {one.method}",
            f"{level} %",
            f"{one.coverage(level):.1f} %",
            f"{one.gauge[level]:.1f} %",
            _span(one.result, level),
            f"{np.mean(one.result.upper[level] - one.result.lower[level]):.2f}",
        ]
        for level in LEVELS
    ]


def _span(result: BacktestResult, level: int) -> str:
    shares = [100 * step.coverage[level] for step in result.by_step]
    return f"{min(shares):.1f} % to {max(shares):.1f} %"


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(epilog="Example: python -m benchmarks.coverage --write-docs")(main)
    app()
