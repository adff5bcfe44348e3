"""What the demo sends, prints and draws: one window of ETTh1, a table, a picture.

The window is the first one of the papers' test split, not one that was picked for its looks.
Letters: L look-back 96, H horizon 96; all values in the csv's own units.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pressroom.output import console

if TYPE_CHECKING:
    import pandas as pd
    from pressroom_client import Forecast, ForecastResult

PICTURE = Path("out") / "demo.png"
LOOK_BACK, HORIZON = 96, 96
FIRST_TEST_ROW = 11520
COLUMNS = {"OT": "oil temperature", "HUFL": "high useful load"}  # two of the seven are drawn
TOLD = "OT"  # and one is printed
STEPS = (1, 2, 3, 6, 12, 24, 48, 96)
COLOURS = {"itransformer": "#d95f02", "card": "#1b9e77"}
WORDS = ("model", "version", "digest", "hour", "time")
SHORT_DIGEST = 19  # "sha256:" and twelve digits


@dataclass(frozen=True)
class Window:
    """history [L rows] as it is sent, truth [H rows] as it came: frames with a DatetimeIndex and seven columns."""

    history: pd.DataFrame
    truth: pd.DataFrame

    @property
    def described(self) -> str:
        first, last = self.history.index[0], self.history.index[-1]
        rows, columns = self.history.shape
        return f"ETTh1 {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({rows} hours, {columns} columns)"


@dataclass(frozen=True)
class Answer:
    """One model's forecast over both transports. *_ms: round trip as the client saw it."""

    model: str
    http: ForecastResult
    grpc: ForecastResult
    http_ms: float
    grpc_ms: float

    @property
    def forecast(self) -> Forecast:
        return self.http.single

    @property
    def title(self) -> str:
        return self.model.partition("-")[0]

    @property
    def apart(self) -> float:
        """Largest difference between the transports' numbers, relative to values above 1."""
        pairs = [(self.forecast.values[c], self.grpc.single.values[c]) for c in self.forecast.values]
        return max(float(np.max(np.abs(a - b) / np.maximum(np.abs(a), 1.0))) for a, b in pairs)

    def error(self, truth: pd.DataFrame, column: str) -> float:
        """Mean absolute error of one column, in its unit."""
        return float(np.abs(self.forecast.values[column] - truth[column].to_numpy()).mean())


def read_window() -> Window:
    """The first window of ETTh1's test split, and the 96 hours that followed."""
    import pandas as pd

    from pressroom.bundled import TRAINING_CSV

    table = pd.read_csv(TRAINING_CSV, parse_dates=["date"], index_col="date")
    start = FIRST_TEST_ROW
    return Window(table.iloc[start - LOOK_BACK : start], table.iloc[start : start + HORIZON])


def show(answers: list[Answer], window: Window) -> None:
    """Who answered and how fast, then the forecast of one column beside what happened."""
    who = [_facts(answer) for answer in answers]
    print_aligned(["model", "version", "digest", "HTTP ms", "gRPC ms", "network ms"], who, WORDS)
    apart = max(answer.apart for answer in answers)
    print("HTTP and gRPC answered the same numbers\n" if apart == 0 else f"HTTP and gRPC agree to {apart:.0e}\n")
    print(f"{TOLD}, {COLUMNS[TOLD]}:")
    rows = [_row(step, answers, window) for step in STEPS]
    errors = [f"{answer.error(window.truth, TOLD):.2f}" for answer in answers]
    rows.append(["all", "mean absolute error", "", *errors])
    print_aligned(["hour", "time", "truth", *(answer.model for answer in answers)], rows, WORDS)


def _facts(answer: Answer) -> list[str]:
    result = answer.http
    network = "-" if result.timings.inference_ms is None else f"{result.timings.inference_ms:.1f}"
    digest = (result.digest or "")[:SHORT_DIGEST]
    return [answer.model, str(result.version), digest, f"{answer.http_ms:.1f}", f"{answer.grpc_ms:.1f}", network]


def _row(step: int, answers: list[Answer], window: Window) -> list[str]:
    at = step - 1
    numbers = [window.truth[TOLD].iloc[at], *(answer.forecast.values[TOLD][at] for answer in answers)]
    return [f"+{step}", f"{window.truth.index[at]:%Y-%m-%d %H:%M}", *(f"{number:.2f}" for number in numbers)]


def print_aligned(headings: list[str], rows: list[list[str]], words: tuple[str, ...]) -> None:
    """A table; columns of words to the left, of numbers to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console().print(table)


def draw(answers: list[Answer], window: Window) -> None:
    """Write PICTURE: for each shown column the history, the forecasts and the truth over time."""
    import matplotlib

    matplotlib.use("Agg")  # no display needed
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(COLUMNS), 1, figsize=(11, 6.5), sharex=True, layout="constrained")
    for axis, (column, meaning) in zip(axes, COLUMNS.items(), strict=True):
        _draw_column(axis, column, answers, window)
        axis.set_ylabel(f"{column}\n{meaning}")
    axes[0].legend(loc="upper left", ncols=4, frameon=False, bbox_to_anchor=(0, 1.16), borderaxespad=0)
    figure.suptitle(
        f"ETTh1, first test window ({window.truth.index[0]:%B %Y}): {LOOK_BACK} hours in, {HORIZON} hours out",
        x=0.01,
        ha="left",
        fontweight="bold",
    )
    _date_axis(axes[-1])
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


def _draw_column(axis: Any, column: str, answers: list[Answer], window: Window) -> None:
    history, truth = window.history[column], window.truth[column]
    axis.plot(history.index, history, color="#444444", lw=1.3, label="history (sent)")
    axis.plot(
        *_joined(history, truth.index, truth.to_numpy()), color="#7a7a7a", lw=1.3, ls=(0, (3, 1.5)), label="truth"
    )
    for answer in answers:
        line = _joined(history, truth.index, answer.forecast.values[column])
        axis.plot(*line, color=COLOURS.get(answer.title), lw=1.7, label=answer.model)
    axis.axvspan(truth.index[0], truth.index[-1], color="#f3f3ef", zorder=0, lw=0)
    axis.axvline(history.index[-1], color="#777777", lw=0.8)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)


def _joined(history: pd.Series[float], after: pd.Index[Any], values: npt.NDArray[np.float64]) -> tuple[Any, Any]:
    """A line that starts at the last known value, so that the eye sees where it leaves the history."""
    return after.insert(0, history.index[-1]), np.concatenate([[history.iloc[-1]], values])


def _date_axis(axis: Any) -> None:
    from matplotlib import dates

    axis.xaxis.set_major_locator(dates.DayLocator())  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_formatter(dates.DateFormatter("%d %b"))  # type: ignore[no-untyped-call]
