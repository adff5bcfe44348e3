"""Rolling origins: which windows are sent, what is compared, and the scores against their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest
from persistence import COLUMNS, HORIZON, LOOK_BACK, Line8
from pressroom_client import BacktestOptions, BacktestResult, ModelMetadata, TensorSpec, UsageError
from pressroom_client._backtest import Backtest
from pressroom_client._scores import scores

from services.core.call import Call

Make = Callable[..., Line8]
METADATA = ModelMetadata(
    name="line",
    versions=("1",),
    platform="onnx",
    inputs=(TensorSpec("history", "FP32", (-1, LOOK_BACK, 2)),),
    outputs=(TensorSpec("forecast", "FP32", (-1, HORIZON, 2)),),
)


def table(rows: int, kind: str = "line", start: str = "2026-01-05") -> pd.DataFrame:
    n = np.arange(rows, dtype=float)
    values = np.stack([n, -2 * n], axis=1) if kind == "line" else np.random.default_rng(0).normal(10, 1, (rows, 2))
    return pd.DataFrame(values, columns=list(COLUMNS), index=pd.date_range(start, periods=rows, freq="h"))


async def run(one: Line8, frame: Any, **options: Any) -> BacktestResult:
    """As the clients do, without a transport."""
    test = Backtest(frame, "line", None, METADATA, BacktestOptions(**options))
    for number, part in enumerate([*test.parts(), None]):
        for truth in test.due(part):
            await one.model.answer(orjson.loads(truth.body), Call("/v1/forecast/truth", "http", "t"))
        if part is not None:
            call = Call("/v1/forecast", "http", f"part-{number}")
            answer = await one.model.answer(orjson.loads(part.call.body), call)
            document = orjson.dumps(answer | {"request_id": call.request_id}, option=orjson.OPT_SERIALIZE_NUMPY)
            test.take(part, part.call.read(document, call.request_id))
    return test.result()


def test_scores_are_their_formulas() -> None:
    forecast, truth = np.array([[[1.0], [2.0]], [[3.0], [0.0]]]), np.array([[[2.0], [np.nan]], [[1.0], [0.0]]])
    found = scores(forecast, truth, np.full((2, 1, 1), 0.5), {80: (truth - 1, forecast)})
    assert (found.values, found.mse, found.mae) == (3, pytest.approx(5 / 3), pytest.approx(1))
    assert found.smape == pytest.approx(200 / 3 * (1 / 3 + 2 / 4 + 0))  # 0 against 0 is no error
    assert found.mase == pytest.approx(2)
    assert found.coverage == {80: pytest.approx(2 / 3)}


async def test_a_line_is_forecast_without_error_from_every_origin(line: Make) -> None:
    result = await run(line(), table(30), stride=1, levels=())
    assert len(result) == 30 - LOOK_BACK - HORIZON + 1
    assert result.overall.mae == pytest.approx(0, abs=1e-4)
    np.testing.assert_allclose(result.truth[0, :, 0], LOOK_BACK + np.arange(HORIZON))
    assert result.origins[0] == (0, "2026-01-05T08:00:00")
    assert list(result.table().index) == ["a", "b", "all"]
    assert list(result.table("step").index) == [1, 2, 3, 4, "all"]


async def test_by_default_every_row_is_forecast_once_and_the_latest_windows_count(line: Make) -> None:
    result = await run(line(), table(30), windows=3, levels=())
    assert [row for _, row in result.origins] == [f"2026-01-0{5 + h // 24}T{h % 24:02d}:00:00" for h in (18, 22, 26)]


async def test_coverage_and_errors_are_those_of_the_numbers_kept(line: Make) -> None:
    result = await run(line(), table(200, "noise"), stride=1, levels=[50, 95])
    error = result.forecast - result.truth
    assert result.overall.mse == pytest.approx((error**2).mean())
    assert result.by_column["b"].mae == pytest.approx(np.abs(error[..., 1]).mean())
    assert result.by_step[2].mae == pytest.approx(np.abs(error[:, 2]).mean())
    inside = (result.truth >= result.lower[95]) & (result.truth <= result.upper[95])
    assert result.overall.coverage[95] == pytest.approx(inside.mean())
    assert result.overall.coverage[50] < result.overall.coverage[95]


async def test_mase_divides_by_the_naive_error_before_the_first_origin(line: Make) -> None:
    frame = table(60, "noise")
    result = await run(line(), frame, windows=2, season=3, levels=())
    first = 60 - 2 * HORIZON
    values = frame.to_numpy()[:first]
    naive = np.abs(values[3:] - values[:-3]).mean(axis=0)
    assert result.overall.mase == pytest.approx((np.abs(result.forecast - result.truth) / naive).mean())


async def test_errors_are_divided_by_a_scale(line: Make) -> None:
    plain = await run(line(), table(60, "noise"), levels=[80])
    scaled = await run(line(), table(60, "noise"), levels=[80], scale={"a": 2.0, "b": 10.0})
    assert scaled.by_column["a"].mae == pytest.approx(plain.by_column["a"].mae / 2)
    assert scaled.by_column["b"].mse == pytest.approx(plain.by_column["b"].mse / 100)
    assert scaled.overall.coverage == plain.overall.coverage
    assert scaled.by_column["b"].mase == pytest.approx(plain.by_column["b"].mase, nan_ok=True)


async def test_several_series_and_unknown_truths(line: Make) -> None:
    short = table(20)
    short.iloc[-1, 0] = np.nan  # after the last origin: nothing to compare, nothing to refuse
    result = await run(line(), {"x": table(30), "y": short}, windows=1, levels=())
    assert [key for key, _ in result.origins] == ["x", "y"]
    assert result.overall.values == 2 * HORIZON * 2 - 1
    with pytest.raises(UsageError, match="a backtest needs 12"):
        await run(line(), table(11))


async def test_truths_are_told_when_they_have_happened(line: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pressroom_client._backtest.BATCH", 1)
    test = Backtest(table(30), "line", None, METADATA, BacktestOptions(stride=1, truths=True))
    parts, told = list(test.parts()), []
    one = line()
    for part in parts:
        told.append(len(test.due(part)))
        answer = await one.model.answer(orjson.loads(part.call.body), Call("/v1/forecast", "http", "x"))
        test.take(part, part.call.read(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), "x"))
    assert told == [0] * HORIZON + [1] * (len(parts) - HORIZON)  # the first is past when the fifth is made
    assert len(test.due(None)) == HORIZON


async def test_the_servers_coverage_is_the_backtests(line: Make) -> None:
    one = line()
    result = await run(one, table(120, "noise"), stride=1, levels=[80, 95], truths=True)
    assert one.model.intervals is not None
    counted = one.model.intervals.coverage()
    for level in (80, 95):
        covered, total = counted["split", level]
        assert (total, covered / total) == (len(result) * HORIZON * 2, pytest.approx(result.overall.coverage[level]))
