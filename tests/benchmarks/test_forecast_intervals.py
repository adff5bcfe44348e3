"""Intervals, truths and backtests through a real server: every protocol, the client, the command line, /metrics."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import etth1
import numpy as np
import pandas as pd
import pytest
from etth1 import CARD, ITRANSFORMER
from live_server import PRESSROOM, LiveServer, StartServer, clean_environment
from pressroom_client import AsyncClient, BacktestOptions, Client, InvalidRequest

from benchmarks.accuracy import BATCH
from benchmarks.coverage import LEVELS, gauges, rows_of_test
from benchmarks.errors_table import errors
from benchmarks.windows import split_windows
from export.scaling import read_scaler
from pressroom.bundled import BUNDLED

TRUTH = "/v1/forecast/truth"
CSV = etth1.DATA / "ett" / "ETTh1.csv"
SLICE = 3 * BATCH // 2  # windows: two requests


def frame(first: int = etth1.START, rows: int = 96) -> pd.DataFrame:
    return pd.read_csv(CSV, index_col="date", parse_dates=True).iloc[first : first + rows]


@pytest.fixture(scope="module")
def fresh(start_server: StartServer) -> LiveServer:
    """A server that was told nothing yet."""
    return start_server()


@pytest.mark.parametrize("model", [ITRANSFORMER, CARD])
def test_a_backtest_agrees_with_the_accuracy_benchmark_and_the_gauge_with_it(fresh: LiveServer, model: str) -> None:
    windows = split_windows()
    bundled = next(one for one in BUNDLED if one.name == model)
    scaler = read_scaler(bundled.config).scaler
    scale = dict(zip(windows.columns, scaler.std.tolist(), strict=True))
    rows = rows_of_test(end=11_520 + SLICE + 95)
    with Client(fresh.url) as client:
        result = client.backtest(
            rows, model=model, options=BacktestOptions(stride=1, levels=LEVELS, scale=scale, truths=True)
        )
    found = errors(result.forecast * scaler.std, windows.truth[:SLICE], scaler, windows.columns)
    assert len(result) == SLICE
    assert result.overall.mse == pytest.approx(found.mse, rel=1e-6)
    assert result.overall.mae == pytest.approx(found.mae, rel=1e-6)
    assert result.by_column["OT"].mse == pytest.approx(found.columns["OT"][0], rel=1e-6)
    shown = gauges(fresh.url, model, "split")
    for level in LEVELS:
        assert shown[level] == pytest.approx(100 * result.overall.coverage[level], abs=0.01)
    assert 60 < 100 * result.overall.coverage[80] < 95  # a week of one season; all of it is in docs/forecasting.md
    assert fresh.metric("pressroom_forecast_truths_total", model=model) == result.truth.size
    assert fresh.metric("pressroom_forecast_kept", model=model) == 0
    assert np.isfinite(fresh.metric("pressroom_forecast_drift_psi", model=model, column="OT"))


async def test_the_async_client_backtests_alike(server: LiveServer) -> None:
    rows, options = frame(rows=96 * 4), BacktestOptions(levels=(80,))
    with Client(server.url) as client:
        expected = client.backtest(rows, model=CARD, options=options)
    async with AsyncClient(f"grpc://{server.grpc_address}") as client:
        found = await client.backtest(rows, model=CARD, options=options)
    assert found.origins == expected.origins
    np.testing.assert_allclose(found.forecast, expected.forecast, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.upper[80], expected.upper[80], rtol=1e-5, atol=1e-5)


def test_intervals_are_the_same_over_every_protocol(server: LiveServer) -> None:
    request = etth1.request(etth1.series(), model=CARD, levels=[80], horizon=3)
    native = server.post(etth1.FORECAST, json=request).raise_for_status().json()
    content = json.dumps({key: value for key, value in request.items() if key != "model"})
    tensor = {"name": "request", "datatype": "BYTES", "shape": [1], "data": [content]}
    answer = server.post(f"/v2/models/{CARD}/infer", json={"inputs": [tensor]}).raise_for_status().json()
    inside = json.loads(answer["outputs"][0]["data"][0])
    assert inside["series"][0]["intervals"][0]["level"] == 80
    upper = [one["series"][0]["intervals"][0]["upper"]["OT"] for one in (native, inside)]
    np.testing.assert_allclose(upper[1], upper[0], rtol=1e-5, atol=1e-5)
    with Client(f"grpc://{server.grpc_address}") as client:
        result = client.forecast(frame(), model=CARD, levels=[80], horizon=3)
    np.testing.assert_allclose(result.single.interval(80).upper["OT"], upper[0], rtol=1e-5, atol=1e-5)


def test_a_truth_may_come_by_another_protocol_than_its_forecast(server: LiveServer) -> None:
    with Client(server.url) as http, Client(f"grpc://{server.grpc_address}") as grpc:
        result = http.forecast({"meter": frame()}, model=CARD, levels=[80])
        answer = grpc.send_truth({"meter": frame(etth1.START + 96, 2)}, model=CARD, request_id=result.request_id)
        assert (answer.forecasts, answer.values) == ((1,), (14,))
        with pytest.raises(InvalidRequest, match="no forecast with intervals is kept"):
            http.send_truth(frame(), model=CARD, request_id="nobody's")


def test_truths_are_documented_and_counted_like_every_task(server: LiveServer) -> None:
    document: dict[str, Any] = server.get("/openapi.json").json()
    example = document["paths"][TRUTH]["post"]["requestBody"]["content"]["application/json"]["example"]
    answer = server.post(TRUTH, json=example).raise_for_status().json()
    assert answer["truth"] == [{"id": "feeder-7", "forecasts": 0, "values": 0}]
    labels = {"model": CARD, "route": TRUTH, "protocol": "http", "code": "ok"}
    assert server.metric("pressroom_requests_total", **labels) >= 1


def test_two_workers_know_each_others_forecasts(start_server: StartServer) -> None:
    pair = start_server("--workers", "2")
    for attempt in range(8):  # each request on a connection of its own, so on either worker
        headers = {"X-Request-Id": f"pair-{attempt}"}
        request = etth1.request(etth1.series(), model=CARD, levels=[80])
        pair.post(etth1.FORECAST, json=request, headers=headers).raise_for_status()
        observed = {"model": CARD, "request_id": f"pair-{attempt}", "truth": {"values": {"OT": [1.0]}}}
        answer = pair.post(TRUTH, json=observed).raise_for_status().json()
        assert answer["truth"][0]["values"] == 1
        assert answer["coverage"][0]["values"] == attempt + 1
    assert pair.metric("pressroom_forecast_truths_total", model=CARD) == 8


def cli(server: LiveServer, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [PRESSROOM, *arguments, "--url", server.url]
    environment = clean_environment(server.home)
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def test_the_command_line_forecasts_parquet_with_intervals_and_a_picture(server: LiveServer, tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "data.parquet")
    done = cli(
        server, "forecast", "data.parquet", "--model", CARD, "--levels", "80", "--target", "OT",
        "--out", "out.csv", "--plot", "out.png", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = pd.read_csv(tmp_path / "out.csv")
    assert list(written.columns) == ["time", "OT", "OT-lo-80", "OT-hi-80"]
    assert written["time"].iloc[0] == etth1.stamps(etth1.START + 96)[0]
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_line_forecasts_a_long_csv_with_gaps(server: LiveServer, tmp_path: Path) -> None:
    parts = [
        frame(etth1.START + i, 120 + i).drop(frame(etth1.START + i).index[50]).assign(id=f"s{i}") for i in range(2)
    ]
    pd.concat(parts).reset_index().to_csv(tmp_path / "long.csv", index=False)
    told = ("forecast", "long.csv", "--model", CARD, "--id-column", "id", "--json")
    refused = cli(server, *told, cwd=tmp_path)
    assert refused.returncode == 1
    assert "timestamps_gap" in refused.stderr
    done = cli(server, *told, "--missing", "linear", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [one["id"] for one in json.loads(done.stdout)["series"]] == ["s0", "s1"]


def test_the_command_line_backtests_in_the_papers_units(server: LiveServer, tmp_path: Path) -> None:
    done = cli(
        server, "backtest", str(CSV), "--model", CARD, "--windows", "2", "--scale-rows", "0:8640", "--json",
        "--plot", "b.svg", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with Client(server.url) as client:
        expected = client.backtest(frame(0, 20_000), model=CARD, options=BacktestOptions(windows=2))
    assert found["windows"] == 2
    std = frame(0, 8640)["OT"].std(ddof=0)
    assert found["by_column"]["OT"]["mae"] == pytest.approx(expected.by_column["OT"].mae / std, rel=1e-5)
    assert (tmp_path / "b.svg").exists()
