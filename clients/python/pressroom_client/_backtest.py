"""Rolling-origin backtests through a served model: what it would have forecast, against what happened.

From each origin the look-back before it is sent and the horizon after it compared; origins are `stride` steps apart.
Letters: W windows, H horizon, C columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _json
from ._errors import UsageError
from ._forecast import ForecastCall
from ._history import Histories, Sent, normalise
from ._scores import Scores, scores
from ._truth import TruthCall, wired_truth
from ._types import ForecastResult, ModelMetadata

if TYPE_CHECKING:
    import pandas as pd

BATCH = 64  # windows in one request
_DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class BacktestOptions:
    """How to test.

    horizon   steps compared; None: the model's
    stride    steps from one origin to the next; None: the horizon, so that every row is forecast once
    windows   at most this many of every series, the latest; None: all
    levels    nominal coverages in percent; () for none
    season    steps of the naive forecast MASE compares with, over the rows before the first origin; None: a day of the
              data, or a week of daily data
    scale     column -> what errors and values are divided by first, e.g. training standard deviations
    truths    also send every truth once its time has come, so that the coverage gauge and adaptive intervals follow
    request   further fields of every forecast: missing, interval
    """

    horizon: int | None = None
    stride: int | None = None
    windows: int | None = None
    levels: Sequence[int] = (80, 95)
    season: int | None = None
    scale: Mapping[str, float] | None = None
    truths: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class BacktestResult:
    """Forecasts, truths and scores; values in raw units (divided by `scale` if one was given).

    origins          (series id or position, first forecast time step or row) of every window, [W]
    forecast, truth  float64 [W, H, C]; an unknown truth is NaN and counts nowhere
    lower, upper     level -> float64 [W, H, C]
    overall          scores over everything; by_column [C], by_step [H]
    """

    model: str | None
    version: str | None
    columns: tuple[str, ...]
    origins: list[tuple[Any, Any]]
    forecast: np.ndarray
    truth: np.ndarray
    lower: dict[int, np.ndarray]
    upper: dict[int, np.ndarray]
    overall: Scores
    by_column: dict[str, Scores]
    by_step: list[Scores]

    def __len__(self) -> int:
        """Windows."""
        return len(self.forecast)

    def table(self, by: str = "column") -> pd.DataFrame:
        """Scores as a frame, one row a column ("column") or a step ("step"), the whole in the last. Needs pandas."""
        from ._frames import pandas

        if by not in ("column", "step"):
            raise UsageError(f"table by {by!r}", field="by", hint='"column" or "step"')
        rows: dict[Any, Scores] = (
            dict(self.by_column) if by == "column" else {i + 1: one for i, one in enumerate(self.by_step)}
        )
        rows["all"] = self.overall
        frame: pd.DataFrame = pandas().DataFrame({key: one.as_dict() for key, one in rows.items()}).T
        return frame.rename_axis(by)


@dataclass(frozen=True, eq=False)
class Part:
    """The windows of one request: of one series, by the row each origin is."""

    series: int
    rows: list[int]
    call: ForecastCall


class Backtest:
    """A backtest being made: send what is `due` and the calls of `parts`, `take` every answer, ask for the `result`."""

    def __init__(
        self, histories: Histories, model: str, version: str | None, metadata: ModelMetadata, options: BacktestOptions
    ) -> None:
        self._sent = normalise(histories)
        self._model, self._version, self._options = model, version, options
        self._look_back = _steps(metadata.inputs, "history", model)
        self._horizon = options.horizon or _steps(metadata.outputs, "forecast", model)
        self._columns = tuple(self._sent[0].wire["values"])
        self._tables = [_table(one, self._columns, i) for i, one in enumerate(self._sent)]
        self._answers: list[tuple[Part, ForecastResult]] = []
        self._untold: list[tuple[Part, ForecastResult]] = []

    def parts(self) -> Iterator[Part]:
        """Every request of the test. Raises UsageError if a series is too short for one window."""
        for series, table in enumerate(self._tables):
            rows = self._origins(len(table), series)
            for begin in range(0, len(rows), BATCH):
                chosen = rows[begin : begin + BATCH]
                yield Part(series, chosen, self._call(series, chosen))

    def take(self, part: Part, result: ForecastResult) -> None:
        """Keep an answer."""
        self._answers.append((part, result))
        if self._options.truths:
            self._untold.append((part, result))

    def due(self, ahead: Part | None) -> list[TruthCall]:
        """Truths to send before `ahead` is forecast: those wholly past by then, or all of them at the end (None).

        A forecaster learns of a truth when it has happened, not when the file has it.
        """
        past = [
            (part, result)
            for part, result in self._untold
            if ahead is None or part.series != ahead.series or part.rows[-1] + self._horizon <= ahead.rows[0]
        ]
        self._untold = [one for one in self._untold if one not in past]
        return [self._truth(part, result) for part, result in past]

    def _truth(self, part: Part, result: ForecastResult) -> TruthCall:
        return wired_truth(
            [{"values": self._slice(part.series, row, row + self._horizon)["values"]} for row in part.rows],
            model=self._model,
            version=result.version,
            request_id=result.request_id,
        )

    def result(self) -> BacktestResult:
        """What came out, once every answer was taken."""
        scale = np.array([(self._options.scale or {}).get(name, 1.0) for name in self._columns])
        forecast = self._stack(lambda one: one.values) / scale
        windows = [(part.series, row) for part, _ in self._answers for row in part.rows]
        truth = np.stack([self._tables[series][row : row + self._horizon] for series, row in windows]) / scale
        naive_of = {series: self._naive(series) / scale for series in {series for series, _ in windows}}
        naive = np.stack([naive_of[series] for series, _ in windows])
        bounds = {
            level: tuple(
                self._stack(lambda one, level=level, side=side: getattr(one.interval(level), side)) / scale
                for side in ("lower", "upper")
            )
            for level in self._options.levels
        }
        last = self._answers[-1][1]

        def of(steps: slice, columns: slice) -> Scores:
            cut = (slice(None), steps, columns)
            inside = {level: (low[cut], high[cut]) for level, (low, high) in bounds.items()}
            return scores(forecast[cut], truth[cut], naive[:, None, columns], inside)

        every = slice(None)
        return BacktestResult(
            model=last.model,
            version=last.version,
            columns=self._columns,
            origins=[self._origin(series, row) for series, row in windows],
            forecast=forecast,
            truth=truth,
            lower={level: low for level, (low, _) in bounds.items()},
            upper={level: high for level, (_, high) in bounds.items()},
            overall=of(every, every),
            by_column={name: of(every, slice(i, i + 1)) for i, name in enumerate(self._columns)},
            by_step=[of(slice(i, i + 1), every) for i in range(self._horizon)],
        )

    def _origins(self, rows: int, series: int) -> list[int]:
        stride = self._options.stride or self._horizon
        last = rows - self._horizon
        if last < self._look_back:
            needed = self._look_back + self._horizon
            hint = f"one window takes {self._look_back} + {self._horizon} rows"
            message = f"series {series} has {rows} rows, a backtest needs {needed}"
            raise UsageError(message, field=f"series[{series}]", hint=hint)
        found = list(range(last, self._look_back - 1, -stride))[: self._options.windows]
        return found[::-1]

    def _call(self, series: int, rows: list[int]) -> ForecastCall:
        wires = [self._slice(series, row - self._look_back, row) for row in rows]
        asked: dict[str, Any] = {"model": self._model, "version": self._version, "horizon": self._horizon}
        asked |= {"levels": list(self._options.levels) or None, **self._options.request}
        body = _json.encode({key: value for key, value in asked.items() if value is not None} | {"series": wires})
        sent = tuple(Sent(id=wire.get("id"), wire=wire) for wire in wires)
        return ForecastCall(model=self._model, version=self._version, body=body, sent=sent)

    def _slice(self, series: int, begin: int, end: int) -> dict[str, Any]:
        wire = self._sent[series].wire
        cut: dict[str, Any] = {name: wire[name] for name in ("id", "tz") if name in wire}
        if "timestamps" in wire:
            cut["timestamps"] = wire["timestamps"][begin:end]
        return cut | {"values": {name: column[begin:end] for name, column in wire["values"].items()}}

    def _stack(self, read: Any) -> np.ndarray:
        """[W, H, C] of something every forecast has by column."""
        every = [forecast for _, result in self._answers for forecast in result]
        return np.stack([np.stack([read(one)[name] for name in self._columns], axis=1) for one in every])

    def _naive(self, series: int) -> np.ndarray:
        """Mean error of the seasonal naive forecast, [C]: over the rows before the first origin, or over all of them
        where those hold no season; NaN without any."""
        season = self._options.season or _season(self._sent[series].wire)
        whole = self._tables[series]
        before = whole[: self._origins(len(whole), series)[0]]
        table = before if len(before) > season else whole
        if len(table) <= season:
            return np.full(len(self._columns), np.nan)
        return np.asarray(np.nanmean(np.abs(table[season:] - table[:-season]), axis=0))

    def _origin(self, series: int, row: int) -> tuple[Any, Any]:
        sent = self._sent[series]
        stamps = sent.wire.get("timestamps")
        return (series if sent.id is None else sent.id, row if stamps is None else stamps[row])


def _steps(tensors: Sequence[Any], name: str, model: str) -> int:
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    if name not in shapes:
        raise UsageError(f"{model} is not a forecaster: it has {', '.join(shapes)}", field="model")
    return int(shapes[name][1])


def _table(sent: Sent, columns: tuple[str, ...], index: int) -> np.ndarray:
    """The values of a series, float64 [rows, C], NaN where missing."""
    if tuple(sent.wire["values"]) != columns:
        raise UsageError("all series of a backtest have the same columns", field=f"series[{index}].values")
    if "start" in sent.wire:
        raise UsageError("a backtest needs timestamps, not a start", field=f"series[{index}].start")
    try:
        return np.array([sent.wire["values"][name] for name in columns], dtype=np.float64).T
    except (TypeError, ValueError) as error:
        raise UsageError(f"values are not numbers of one length: {error}", field=f"series[{index}].values") from error


def _season(wire: Mapping[str, Any]) -> int:
    """Steps of a day, or of a week of daily data; 1 where time is unknown."""
    stamps = wire.get("timestamps")
    if not stamps or len(stamps) < 2:
        return 1
    first, second = (
        np.datetime64(stamp, "s") if isinstance(stamp, int) else np.datetime64(str(stamp)[:19], "s")
        for stamp in stamps[:2]
    )
    step = int((second - first).astype(np.int64))
    if step == _DAY:
        return 7
    return max(_DAY // step, 1) if 0 < step < _DAY else 1
