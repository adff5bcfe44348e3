"""LIFT around the bundled forecasters, and ARM, served: every way in gives what the network in torch gives.

The expected numbers come from the checkpoints in `data/` and the networks in `models/`, fed by hand: scaled windows,
calendar marks from pandas. Tolerances: the certificate's between torch and graph, in training standard deviations.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import etth1
import numpy as np
import pandas as pd
import pytest
import torch
from live_server import LiveServer, StartServer, clean_environment
from pressroom_client import BadRequest, Client, History
from safetensors.torch import load_file

from models.forecasting.registry import architecture

LIFTS = ("lift-itransformer-etth1", "lift-card-etth1")
ARM = "arm-etth1"
STEMS = {name: name.replace("-etth1", "").replace("-", "_") + "_etth1_96_96" for name in (*LIFTS, ARM)}
LOOK_BACK = {LIFTS[0]: 192, LIFTS[1]: 192, ARM: 96}
FIRST = 11424 - 96  # of 192 rows that end where the official test split's first window ends
BERLIN = "Europe/Berlin"
CALIBRATION = (11_100, 11_520)  # csv rows their intervals are calibrated with here
_PRESS = """
import sys
from dataclasses import replace
from export.forecast import press
from pressroom.bundled import PLUGINS, job
for one in PLUGINS:
    press(replace(job(one), evaluate=False, calibration=sys.argv[1]))
"""


@pytest.fixture(scope="module")
def plugins(pressed_home: Path, start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> LiveServer:
    """A server with the bundled forecasters and everything put around them."""
    folder = tmp_path_factory.mktemp("plugins")
    pd.read_csv(etth1.DATA / "ett" / "ETTh1.csv").iloc[slice(*CALIBRATION)].to_csv(folder / "recent.csv", index=False)
    shutil.copytree(pressed_home, folder / "home", symlinks=True)
    done = subprocess.run(
        [sys.executable, "-c", _PRESS, str(folder / "recent.csv")],
        env=clean_environment(folder / "home"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return start_server(home=folder / "home")


@cache
def network(name: str) -> torch.nn.Module:
    stem = STEMS[name]
    found = architecture(stem.partition("_")[0])
    state = load_file(etth1.DATA / "checkpoints" / f"{stem}.safetensors")
    config = found.parse_config(document(name)["config"])
    made = found.build(config)
    made.load_state_dict(found.translate(state, config).state, strict=True)
    return made


@cache
def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((etth1.DATA / "checkpoints" / f"{STEMS[name]}.json").read_bytes())
    return found


def marks(clock: pd.DatetimeIndex) -> np.ndarray:
    """float32 [L, 4]: the papers' hourly calendar marks of a wall clock."""
    parts = (clock.hour / 23, clock.day_of_week / 6, (clock.day - 1) / 30, (clock.day_of_year - 1) / 365)
    return (np.stack([np.asarray(part) for part in parts], axis=1) - 0.5).astype(np.float32)


def expected(name: str, first: int = FIRST, clock: pd.DatetimeIndex | None = None) -> np.ndarray:
    """Raw forecast [96, 7] of the network in torch for the window that starts at a csv row."""
    return forecasts(name, [first], clock)[0]


def forecasts(name: str, firsts: Sequence[int], clock: pd.DatetimeIndex | None = None) -> np.ndarray:
    """The same for several windows, [W, 96, 7]."""
    data, length = document(name)["data"], LOOK_BACK[name]
    mean, std = np.array(data["scaler_mean"]), np.array(data["scaler_std"])
    steps = length + (96 if name == ARM else 0)
    clocks = [pd.DatetimeIndex(etth1.stamps(first, steps)) if clock is None else clock for first in firsts]
    histories = np.stack([etth1.values(first, length) for first in firsts])
    x = torch.from_numpy(((histories - mean) / std).astype(np.float32))
    m = torch.from_numpy(np.stack([marks(one) for one in clocks]))
    with torch.inference_mode():
        forecast = network(name)(x, m) if name != LIFTS[1] else network(name)(x)
    return forecast.numpy().astype(np.float64) * std + mean


def close(got: np.ndarray, name: str, wanted: np.ndarray) -> None:
    std = np.array(document(name)["data"]["scaler_std"])
    np.testing.assert_allclose(got / std, wanted / std, atol=5e-5, rtol=1e-4)


def entry(name: str, first: int = FIRST, **fields: Any) -> dict[str, Any]:
    return etth1.series(first, LOOK_BACK[name], **fields)


def native(server: LiveServer, name: str) -> np.ndarray:
    answer = server.post(etth1.FORECAST, json=etth1.request(entry(name), model=name)).raise_for_status().json()
    return etth1.forecast_of(answer["series"][0])


def history(name: str) -> History:
    length = LOOK_BACK[name]
    columns = dict(zip(etth1.COLUMNS, etth1.values(FIRST, length).T, strict=True))
    return History(values=columns, timestamps=etth1.stamps(FIRST, length))


def client_http(server: LiveServer, name: str) -> np.ndarray:
    with Client(server.url) as client:
        (answer,) = client.forecast(history(name), model=name)
    return np.stack([answer.values[column] for column in etth1.COLUMNS], axis=1)


def client_grpc(server: LiveServer, name: str) -> np.ndarray:
    with Client(f"grpc://{server.grpc_address}") as client:
        (answer,) = client.forecast(history(name), model=name)
    return np.stack([answer.values[column] for column in etth1.COLUMNS], axis=1)


def tensors(name: str) -> dict[str, np.ndarray]:
    length = LOOK_BACK[name]
    return {"history": etth1.history(FIRST, length=length), "timestamps": etth1.clock(FIRST, length=length)}


def protocol_http(server: LiveServer, name: str) -> np.ndarray:
    with Client(server.url) as client:
        return client.infer(name, tensors(name)).outputs["forecast"][0]


def protocol_grpc(server: LiveServer, name: str) -> np.ndarray:
    with Client(f"grpc://{server.grpc_address}") as client:
        return client.infer(name, tensors(name)).outputs["forecast"][0]


WAYS: dict[str, Callable[[LiveServer, str], np.ndarray]] = {
    "native JSON": native,
    "client over HTTP": client_http,
    "client over gRPC": client_grpc,
    "tensors over HTTP": protocol_http,
    "tensors over gRPC": protocol_grpc,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STEMS)
def test_every_way_in_gives_the_network_s_forecast(plugins: LiveServer, name: str, way: str) -> None:
    close(WAYS[way](plugins, name), name, expected(name))


@pytest.mark.parametrize("name", LIFTS)
def test_lift_says_what_it_is_put_around(plugins: LiveServer, name: str) -> None:
    served = {m["id"]: m for m in plugins.get("/v1/models").json()["data"]}
    backbone = served[name]["settings"]["backbone"]
    inner = served[backbone["name"]]
    assert backbone["name"] == name.removeprefix("lift-")
    assert (backbone["version"], backbone["digest"]) == (inner["version"], inner["digest"])
    assert (backbone["architecture"], backbone["weights"]) == (inner["architecture"], "as pressed")


@pytest.mark.parametrize("name", LIFTS)
def test_a_history_without_the_steps_before_the_window_is_refused_with_the_reason(
    plugins: LiveServer, name: str
) -> None:
    answer = plugins.post(etth1.FORECAST, json=etth1.request(etth1.series(), model=name))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["field"]) == (422, "history_too_short", "series[0].values")
    assert error["message"] == (
        "got 96 time steps, the model needs 192 "
        "(the exact estimator compares the last 96 steps with every window up to 96 steps before them)"
    )
    with Client(plugins.url) as client, pytest.raises(BadRequest, match=r"needs 192 \(the exact estimator"):
        client.infer(name, {"history": etth1.history()})


def difficulty(name: str, histories: np.ndarray) -> np.ndarray:
    """Raw histories [W, L, 7] -> [W, 7]: how far the last day is from the mean of the three before, as documented."""
    std = np.array(document(name)["data"]["scaler_std"])
    days = (histories / std).reshape(len(histories), -1, 24, 7)
    own = np.abs(days[:, -1] - days[:, -4:-1].mean(axis=1)).mean(axis=1) + 0.05
    return np.sqrt(own * np.exp(np.log(own).mean(axis=1, keepdims=True))) * std


def radius(name: str, level: int) -> np.ndarray:
    """Half-widths [96, 7] for the window at FIRST: the ceil((n + 1) p)-th smallest of the calibration's scores."""
    length = LOOK_BACK[name]
    firsts = range(CALIBRATION[0], CALIBRATION[1] - length - 96 + 1)
    truths = np.stack([etth1.values(first + length, 96) for first in firsts])
    histories = np.stack([etth1.values(first, length) for first in firsts])
    scores = np.abs(truths - forecasts(name, firsts)) / difficulty(name, histories)[:, None]
    rank = -(-(len(scores) + 1) * level // 100) - 1
    return np.sort(scores, axis=0)[rank] * difficulty(name, etth1.values(FIRST, length)[None])


@pytest.mark.parametrize("name", STEMS)
def test_intervals_are_those_of_the_plugin_s_own_errors_on_every_way_in(plugins: LiveServer, name: str) -> None:
    """Calibrated at export with its own history length and, for ARM, the horizon's calendar."""
    wanted, std = radius(name, 80), np.array(document(name)["data"]["scaler_std"])
    with Client(plugins.url) as http, Client(f"grpc://{plugins.grpc_address}") as grpc:
        for client in (http, grpc):
            one = client.forecast({"T1": history(name)}, model=name, levels=[80, 95]).single
            assert [interval.level for interval in one.intervals] == [80, 95]
            for i, column in enumerate(etth1.COLUMNS):
                interval = one.interval(80)
                np.testing.assert_allclose(
                    (interval.upper[column] - interval.lower[column]) / 2 / std[i], wanted[:, i] / std[i], atol=2e-4
                )
                assert (one.interval(95).upper[column] >= interval.upper[column]).all()
    content = json.dumps(etth1.request(entry(name), levels=[80]) | {"model": name})
    tensor = {"name": "request", "datatype": "BYTES", "shape": [1], "data": [content]}
    answer = plugins.post(f"/v2/models/{name}/infer", json={"inputs": [tensor]}).raise_for_status().json()
    (inside,) = json.loads(answer["outputs"][0]["data"][0])["series"][0]["intervals"]
    np.testing.assert_allclose(
        (np.array(inside["upper"]["OT"]) - inside["lower"]["OT"]) / 2 / std[6], wanted[:, 6] / std[6], atol=2e-4
    )


@pytest.mark.parametrize("name", STEMS)
def test_truths_teach_a_plugin_s_adaptive_intervals(plugins: LiveServer, name: str) -> None:
    observed = dict(zip(etth1.COLUMNS, etth1.values(FIRST + LOOK_BACK[name], 96).T, strict=True))
    with Client(plugins.url) as client:
        result = client.forecast(history(name), model=name, levels=[80], interval="adaptive")
        interval = result.single.interval(80)
        answer = client.send_truth(pd.DataFrame(observed), model=name, request_id=result.request_id)
    assert answer.values == (96 * 7,)
    inside = [
        (interval.lower[column] <= observed[column]) & (observed[column] <= interval.upper[column])
        for column in etth1.COLUMNS
    ]
    assert plugins.metric(
        "pressroom_forecast_coverage_ratio", model=name, method="adaptive", level="80"
    ) == pytest.approx(np.mean(inside), abs=0.003)


def test_windows_in_one_request_do_not_touch_each_other(plugins: LiveServer) -> None:
    firsts = (FIRST, FIRST + 500, FIRST + 1000)
    request = etth1.request(*(entry(LIFTS[0], first) for first in firsts), model=LIFTS[0])
    answer = plugins.post(etth1.FORECAST, json=request).raise_for_status().json()
    for first, one in zip(firsts, answer["series"], strict=True):
        close(etth1.forecast_of(one), LIFTS[0], expected(LIFTS[0], first))


def test_arm_reads_the_wall_clock_of_the_horizon_it_is_given(plugins: LiveServer) -> None:
    """Clocks go forward in the horizon: with the true stamps its marks differ from those at a constant offset."""
    clock = pd.date_range("2026-03-24", periods=192, freq="h", tz=BERLIN)  # the change comes 26 hours after the history
    assert clock[0].utcoffset() == clock[95].utcoffset() != clock[191].utcoffset()
    sent = [stamp.isoformat() for stamp in clock]
    told = entry(ARM, timestamps=sent[:96], future_timestamps=sent[96:])
    derived = entry(ARM, timestamps=sent[:96])
    answer = plugins.post(etth1.FORECAST, json=etth1.request(told, derived, model=ARM)).raise_for_status().json()
    with_change, without = answer["series"]
    close(etth1.forecast_of(with_change), ARM, expected(ARM, clock=clock.tz_localize(None)))
    constant = pd.date_range(clock[0].tz_localize(None), periods=192, freq="h")
    close(etth1.forecast_of(without), ARM, expected(ARM, clock=constant))
    assert with_change["timestamps"] == sent[96:]
    assert without["timestamps"] != sent[96:]


def test_arm_takes_the_horizon_s_stamps_as_a_tensor(plugins: LiveServer) -> None:
    shifted = etth1.clock(FIRST + 96) + 3600 * 24 * 3  # not where the history ends
    given = tensors(ARM)
    with Client(plugins.url) as client:
        right = client.infer(ARM, {**given, "future_timestamps": etth1.clock(FIRST + 96)}).outputs["forecast"][0]
        close(right, ARM, expected(ARM))
        with pytest.raises(BadRequest, match="timestamp 0 is 259200 s off") as caught:
            client.infer(ARM, {**given, "future_timestamps": shifted})
    assert caught.value.code == "frequency_mismatch"
    assert caught.value.field == "future_timestamps[0][0]"


def test_arm_makes_no_forecast_without_the_calendar(plugins: LiveServer) -> None:
    bare = etth1.request(entry(ARM, timestamps=None), model=ARM)
    error = plugins.post(etth1.FORECAST, json=bare).json()["error"]
    assert (error["code"], error["field"]) == ("timestamps_invalid", "series[0].timestamps")
    with Client(plugins.url) as client, pytest.raises(BadRequest, match="timestamps"):
        client.infer(ARM, {"history": etth1.history(FIRST)})


@pytest.mark.parametrize(
    ("future", "code"),
    [
        (lambda sent: sent[:95], "length_mismatch"),
        (lambda sent: [sent[0], *sent[:95]], "frequency_mismatch"),
        (lambda sent: [f"{stamp}+00:00" for stamp in sent], "timestamps_invalid"),
        (lambda sent: "2026-01-01", "timestamps_invalid"),
    ],
    ids=["too few", "one step late", "another style", "no list"],
)
def test_a_horizon_that_does_not_go_on_from_the_history_is_refused(
    plugins: LiveServer, future: Callable[[list[str]], Any], code: str
) -> None:
    sent = future(etth1.stamps(FIRST + 96))
    answer = plugins.post(etth1.FORECAST, json=etth1.request(entry(ARM, future_timestamps=sent), model=ARM))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, code)
    assert error["field"].startswith("series[0].future_timestamps")


def test_the_example_of_every_plugin_is_its_own_answer(plugins: LiveServer) -> None:
    """What `pressroom inspect` shows can be sent as it is."""
    for name in STEMS:
        (path,) = (plugins.home / "models" / name).glob("*/example.json")
        example = json.loads(path.read_text())
        answer = plugins.post(etth1.FORECAST, json=example["request"]).raise_for_status().json()
        for column, values in example["response"]["series"][0]["values"].items():
            np.testing.assert_allclose(answer["series"][0]["values"][column], values, **example["tolerance"])
