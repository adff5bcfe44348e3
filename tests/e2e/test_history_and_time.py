"""Good requests of every shape: longer histories, timestamps in each style, shorter horizons."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import etth1
import numpy as np
import pytest
from etth1 import CARD, COLUMNS, HORIZON, ITRANSFORMER, START
from live_server import LiveServer
from pressroom_client import Client

from services.forecast_schema import ForecastResponse

both_models = pytest.mark.parametrize("model", [ITRANSFORMER, CARD])


def ask(server: LiveServer, *entries: dict[str, Any], model: str = ITRANSFORMER, **fields: Any) -> dict[str, Any]:
    """The answer to a good request; its shape is checked against the documented one."""
    request = etth1.request(*entries, model=model, **fields)
    answer = server.post(etth1.FORECAST, json=request).raise_for_status().json()
    ForecastResponse.model_validate(answer)
    return answer


def one(server: LiveServer, entry: dict[str, Any], **fields: Any) -> dict[str, Any]:
    (only,) = ask(server, entry, **fields)["series"]
    return only


@pytest.fixture(scope="module")
def exact(server: LiveServer) -> dict[str, Any]:
    """The forecast of exactly the look-back, timestamps as the csv writes them."""
    return one(server, etth1.series())


def assert_same_values(entry: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal but for the last float32 bits, which may depend on how many rows shared the forward pass."""
    np.testing.assert_allclose(etth1.forecast_of(entry), etth1.forecast_of(expected), rtol=1e-5, atol=1e-5)


# --- history


def test_exactly_the_look_back_is_used_whole_and_without_a_warning(exact: dict[str, Any]) -> None:
    assert exact["history"] == {"received": 96, "used": 96}
    assert exact["warnings"] == []
    assert exact["timestamps"] == etth1.stamps(START + 96)


@both_models
@pytest.mark.parametrize("extra", [1, 24, 404])
def test_a_longer_history_is_cut_to_its_last_rows_and_the_answer_says_so(
    server: LiveServer, model: str, extra: int
) -> None:
    expected = one(server, etth1.series(), model=model)
    entry = one(server, etth1.series(START - extra, 96 + extra), model=model)
    assert_same_values(entry, expected)
    assert entry["history"] == {"received": 96 + extra, "used": 96}
    assert entry["timestamps"] == expected["timestamps"]
    (warning,) = entry["warnings"]
    assert warning["code"] == "history_truncated"
    assert str(96 + extra) in warning["message"]
    assert "96" in warning["message"]


@both_models
def test_longer_tensors_are_cut_alike_and_the_parameters_say_so(server: LiveServer, model: str) -> None:
    with Client(server.url) as client:
        exact = client.infer(model, {"history": etth1.history(), "timestamps": etth1.clock()})
        longer = {
            "history": etth1.history(START - 24, length=120),
            "timestamps": etth1.clock(START - 24, length=120),
        }
        cut = client.infer(model, longer)
    np.testing.assert_allclose(cut.outputs["forecast"], exact.outputs["forecast"], rtol=1e-6, atol=1e-6)
    assert (exact.parameters["history_received"], exact.parameters["history_used"]) == (96, 96)
    assert (cut.parameters["history_received"], cut.parameters["history_used"]) == (120, 96)


def test_series_of_different_lengths_share_a_request(server: LiveServer, exact: dict[str, Any]) -> None:
    lengths = (96, 97, 200)
    answer = ask(server, *(etth1.series(START + 96 - n, n, id=str(n)) for n in lengths))
    for entry, length in zip(answer["series"], lengths, strict=True):
        assert (entry["id"], entry["history"]["received"]) == (str(length), length)
        assert_same_values(entry, exact)


def test_one_series_may_be_sent_without_a_list(server: LiveServer, exact: dict[str, Any]) -> None:
    request = {"model": ITRANSFORMER, "series": etth1.series()}
    answer = server.post(etth1.FORECAST, json=request).json()
    assert_same_values(answer["series"][0], exact)


def test_ids_come_back_in_order_and_are_null_where_none_was_sent(server: LiveServer) -> None:
    ids = ["meter 7", None, "", "Zähler"]
    answer = ask(server, *(etth1.series(id=name) for name in ids))
    assert [entry["id"] for entry in answer["series"]] == ids


def test_whole_numbers_count_as_numbers(server: LiveServer) -> None:
    whole = {name: [int(v) for v in column] for name, column in etth1.series()["values"].items()}
    floats = {name: [float(v) for v in column] for name, column in whole.items()}
    assert_same_values(one(server, etth1.series(values=whole)), one(server, etth1.series(values=floats)))


# --- timestamps


def test_card_needs_no_timestamps_and_then_returns_none(server: LiveServer) -> None:
    entry = one(server, etth1.series(timestamps=None), model=CARD)
    assert entry["timestamps"] is None
    assert_same_values(entry, one(server, etth1.series(), model=CARD))


@pytest.mark.parametrize("freq", ["h", "H", "1h"])
@pytest.mark.parametrize("start", [etth1.stamps()[0], etth1.epochs()[0]], ids=["text", "epoch"])
def test_start_and_freq_equal_explicit_timestamps(
    server: LiveServer, exact: dict[str, Any], start: str | int, freq: str
) -> None:
    entry = one(server, etth1.series(timestamps=None, start=start, freq=freq))
    assert_same_values(entry, exact)
    after = etth1.stamps(START + 96) if isinstance(start, str) else etth1.epochs(START + 96)
    assert entry["timestamps"] == after


def test_epoch_seconds_in_epoch_seconds_out(server: LiveServer, exact: dict[str, Any]) -> None:
    entry = one(server, etth1.series(timestamps=etth1.epochs()))
    assert entry["timestamps"] == etth1.epochs(START + 96)
    assert all(type(stamp) is int for stamp in entry["timestamps"])
    assert_same_values(entry, exact)


def test_a_t_between_date_and_time_is_kept(server: LiveServer, exact: dict[str, Any]) -> None:
    entry = one(server, etth1.series(timestamps=[stamp.replace(" ", "T") for stamp in etth1.stamps()]))
    assert entry["timestamps"] == [stamp.replace(" ", "T") for stamp in etth1.stamps(START + 96)]
    assert_same_values(entry, exact)


def test_stamps_without_seconds_are_read(server: LiveServer, exact: dict[str, Any]) -> None:
    entry = one(server, etth1.series(timestamps=[stamp[:-3] for stamp in etth1.stamps()]))
    assert [datetime.fromisoformat(s) for s in entry["timestamps"]] == [
        datetime.fromisoformat(s) for s in etth1.stamps(START + 96)
    ]
    assert_same_values(entry, exact)


@pytest.mark.parametrize("offset", ["+00:00", "+02:00", "-05:30", "+14:00"])
@pytest.mark.parametrize("separator", [" ", "T"])
def test_an_offset_is_kept_and_the_calendar_is_the_wall_clocks(
    server: LiveServer, exact: dict[str, Any], offset: str, separator: str
) -> None:
    def written(first: int) -> list[str]:
        return [stamp.replace(" ", separator) + offset for stamp in etth1.stamps(first)]

    entry = one(server, etth1.series(timestamps=written(START)))
    assert entry["timestamps"] == written(START + 96)
    assert_same_values(entry, exact)  # the same wall clock, so the same calendar, wherever it is


def test_z_is_the_offset_zero(server: LiveServer, exact: dict[str, Any]) -> None:
    entry = one(server, etth1.series(timestamps=[stamp.replace(" ", "T") + "Z" for stamp in etth1.stamps()]))
    first = datetime.fromisoformat(entry["timestamps"][0])
    assert first == datetime.fromisoformat(etth1.stamps(START + 96)[0] + "+00:00")
    assert_same_values(entry, exact)


def test_a_change_to_winter_time_is_no_gap(server: LiveServer) -> None:
    """Berlin leaves summer time at 2017-10-29 03:00: 96 regular instants, written with two offsets."""
    instants = [datetime.fromisoformat("2017-10-27T00:00:00+02:00") + timedelta(hours=i) for i in range(96)]
    change = datetime.fromisoformat("2017-10-29T01:00:00+00:00")

    def local(moment: datetime) -> str:
        hours = 2 if moment < change else 1
        shifted = moment.astimezone(datetime.fromisoformat(f"2017-01-01T00:00:00+0{hours}:00").tzinfo)
        return shifted.isoformat()

    entry = one(server, etth1.series(timestamps=[local(moment) for moment in instants]))
    after = [datetime.fromisoformat(stamp) for stamp in entry["timestamps"]]
    assert after == [instants[-1] + timedelta(hours=i + 1) for i in range(HORIZON)]
    assert all(stamp.endswith("+01:00") for stamp in entry["timestamps"])


def test_the_calendar_matters_to_itransformer(server: LiveServer, exact: dict[str, Any]) -> None:
    """Otherwise the tests above would prove nothing."""
    later = [stamp + 5 * 3600 for stamp in etth1.epochs()]
    entry = one(server, etth1.series(timestamps=later))
    assert np.abs(etth1.forecast_of(entry) - etth1.forecast_of(exact)).max() > 0.01


def test_each_series_of_a_request_keeps_its_own_style(server: LiveServer) -> None:
    answer = ask(server, etth1.series(), etth1.series(timestamps=etth1.epochs()))
    assert [entry["timestamps"] for entry in answer["series"]] == [
        etth1.stamps(START + 96),
        etth1.epochs(START + 96),
    ]


# --- horizon and what the answer says


@both_models
@pytest.mark.parametrize("horizon", [1, 24, 96])
def test_a_shorter_horizon_is_the_beginning_of_the_whole_one(server: LiveServer, model: str, horizon: int) -> None:
    whole = one(server, etth1.series(), model=model)
    entry = one(server, etth1.series(), model=model, horizon=horizon)
    assert entry["timestamps"] == whole["timestamps"][:horizon]
    assert all(len(entry["values"][name]) == horizon for name in COLUMNS)
    np.testing.assert_allclose(etth1.forecast_of(entry), etth1.forecast_of(whole)[:horizon], rtol=1e-6, atol=1e-6)


def test_a_null_horizon_is_the_whole_one(server: LiveServer) -> None:
    assert len(one(server, etth1.series(), horizon=None)["timestamps"]) == HORIZON


@both_models
def test_an_answer_names_its_model_artifact_request_and_times(server: LiveServer, model: str) -> None:
    described = server.get(f"/v1/models/{model}").json()
    answer = ask(server, model=model)
    assert (answer["model"], answer["version"], answer["digest"]) == (
        model,
        described["version"],
        described["digest"],
    )
    stages = [answer["timings"][f"{stage}_ms"] for stage in ("preprocess", "queue", "inference", "postprocess")]
    assert all(milliseconds >= 0 for milliseconds in stages)
    assert sum(stages) == pytest.approx(answer["timings"]["total_ms"], abs=1e-3)  # each is rounded to 0.1 us
    assert answer["batch_rows"] >= 1


@pytest.mark.parametrize("name", [ITRANSFORMER, f"{ITRANSFORMER}:{{version}}"])
def test_a_model_is_named_with_or_without_its_version(server: LiveServer, name: str) -> None:
    version = server.get(f"/v1/models/{ITRANSFORMER}").json()["version"]
    assert ask(server, model=name.format(version=version))["version"] == version
    assert ask(server, model=name.format(version=version), version=version)["version"] == version
