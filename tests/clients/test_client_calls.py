"""Every method, over both transports: what goes out, what comes back."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from pressroom_client import (
    Certificate,
    Client,
    History,
    HistoryTooShort,
    HistoryUse,
    ModelNotFound,
    RouteNotFound,
    Tensor,
    TensorSpec,
    Timings,
    UsageError,
)
from tiny_service import DIGEST, MODEL, Behaviour, RefusalError

VALUES = {"a": [1.0, 2.0, 3.0, 4.0], "b": np.array([10.0, 20.0, 30.0, 40.0], np.float32)}
TIMINGS = Timings(queue_ms=0.5, preprocess_ms=0.25, inference_ms=2.0, postprocess_ms=0.25, total_ms=3.0)


def payload(server: Behaviour) -> dict:
    """The native JSON of the last call, whichever way it came."""
    body = server.seen[-1].body
    return json.loads(body if isinstance(body, bytes) else body.raw_input_contents[0][4:])


def test_a_frame_comes_back_as_a_frame(client: Client, frame: pd.DataFrame) -> None:
    forecast = client.forecast(frame, model="counter").frame
    index = pd.date_range("2024-03-10 06:00", periods=3, freq="h", tz="Asia/Shanghai", name="when")
    expected = pd.DataFrame({"b": [6.0, 7.0, 8.0], "a": [51.0, 52.0, 53.0]}, index=index)
    pd.testing.assert_frame_equal(forecast, expected, check_freq=False, check_index_type=False)


def test_a_result_says_what_answered_and_where_the_time_went(client: Client) -> None:
    result = client.forecast(VALUES, model="counter:2")
    assert (result.model, result.version, result.digest, result.batch_rows) == ("counter", "2", DIGEST, 1)
    assert result.timings == TIMINGS
    assert len(result.request_id) == 32


def test_a_longer_history_is_used_from_its_end_and_said_so(client: Client, frame: pd.DataFrame) -> None:
    forecast = client.forecast(frame).single
    assert forecast.history == HistoryUse(received=6, used=4)
    assert [note.code for note in forecast.warnings] == ["history_truncated"]


def test_plain_values_come_back_as_arrays_in_the_order_sent(client: Client) -> None:
    forecast = client.forecast(History(values=VALUES, id="one"), horizon=2).single
    assert (forecast.id, len(forecast), forecast.timestamps) == ("one", 2, None)
    assert list(forecast.values) == ["a", "b"]
    np.testing.assert_array_equal(forecast.values["b"], [41.0, 42.0])
    assert forecast.values["b"].dtype == np.float64


def test_several_series_come_back_by_position_and_by_id(client: Client, frame: pd.DataFrame) -> None:
    result = client.forecast({"x": frame, "y": History(values=VALUES)})
    assert [forecast.id for forecast in result] == ["x", "y"]
    assert result[1] is result["y"]
    assert list(result.frames) == ["x", "y"]
    with pytest.raises(KeyError, match="no series 'z'"):
        result["z"]
    with pytest.raises(UsageError, match="2 series"):
        _ = result.frame


def test_a_list_of_series_keeps_its_order(client: Client, frame: pd.DataFrame) -> None:
    result = client.forecast([frame, frame * 2])
    assert [list(forecast.values["b"]) for forecast in result] == [[6.0, 7.0, 8.0], [11.0, 12.0, 13.0]]
    assert list(result.frames) == [0, 1]


def test_model_version_and_horizon_are_sent_as_given(client: Client, server: Behaviour) -> None:
    client.forecast(VALUES, model="counter", version=1, horizon=2)
    assert {key: payload(server)[key] for key in ("model", "version", "horizon")} == {
        "model": "counter",
        "version": "1",
        "horizon": 2,
    }
    client.forecast(VALUES)
    assert payload(server).keys() == {"series"}


def test_a_refusal_is_the_exception_of_its_code(client: Client, server: Behaviour) -> None:
    with pytest.raises(HistoryTooShort, match="got 2 time steps, expected at least 4") as caught:
        client.forecast({"a": [1.0, 2.0]}, model="counter")
    assert caught.value.field == "series[0].values"
    assert caught.value.request_id == server.seen[-1].headers["x-request-id"]
    assert len(server.seen) == 1


def test_every_call_names_itself_and_its_caller(url: str, server: Behaviour) -> None:
    with Client(url, api_key="secret", headers={"X-Team": "energy"}, timeout=7) as client:
        client.forecast(VALUES)
    headers = server.seen[-1].headers
    assert headers["authorization"] == "Bearer secret"
    assert headers["x-team"] == "energy"
    assert headers["user-agent"].startswith("pressroom-client/")
    assert "x-retry-count" not in headers


def test_the_server_is_told_the_deadline(client: Client, server: Behaviour, transport: str) -> None:
    client.forecast(VALUES, timeout=7)
    seen = server.seen[-1]
    seconds = int(seen.headers["x-request-timeout-ms"]) / 1000 if transport == "http" else seen.seconds_left
    assert seconds == pytest.approx(7, abs=0.5)


def test_models_lists_what_is_served(client: Client, transport: str) -> None:
    models = client.models()
    assert {model.name for model in models} == {"counter"}
    assert models[0].versions == ("1", "2")
    assert models[0].state == (None if transport == "http" else "READY")


@pytest.mark.parametrize("transport", ["http"])
def test_a_model_describes_itself(client: Client) -> None:
    model = client.model("counter")
    assert (model.name, model.version, model.family, model.architecture) == ("counter", "2", "forecast", "counter")
    assert model.certificate == Certificate("ok", max_abs=1e-6, atol=1e-5, rtol=0.0, cases=5)
    assert model.created == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert model.settings == MODEL["settings"]
    assert model.signature == MODEL["signature"]


def test_a_model_is_found_by_name_and_version(client: Client) -> None:
    assert client.model("counter", version=1).version == "1"
    assert client.model("counter:1").version == "1"
    with pytest.raises(ModelNotFound):
        client.model("nobody")


def test_metadata_gives_the_tensors(client: Client) -> None:
    metadata = client.metadata("counter")
    assert metadata.inputs == (TensorSpec("history", "FP32", (-1, 4, -1)),)
    assert metadata.outputs == (TensorSpec("forecast", "FP32", (-1, 3, -1)),)
    assert (metadata.name, metadata.versions, metadata.platform) == ("counter", ("1", "2"), "onnx")
    assert client.metadata("counter", version=1).versions == ("1",)


def test_the_server_introduces_itself(client: Client) -> None:
    server = client.server()
    assert (server.name, server.version, server.extensions) == ("tiny", "1.0", ("binary_tensor_data",))


def test_probes_say_yes(client: Client) -> None:
    assert client.live()
    assert client.ready()
    assert client.model_ready("counter")


def test_probes_say_no_at_once(client: Client, server: Behaviour) -> None:
    for probe in (client.live, client.ready, lambda: client.model_ready("counter")):
        server.refusals.append(RefusalError("model_not_ready", 503, "UNAVAILABLE"))
        assert probe() is False
    assert len(server.seen) == 3


def test_a_probe_of_an_unknown_model_is_an_error(client: Client) -> None:
    with pytest.raises(ModelNotFound):
        client.model_ready("nobody")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_probes_of_a_server_that_is_not_there_say_no(scheme: str, free_port: int) -> None:
    with Client(f"{scheme}://127.0.0.1:{free_port}") as client:
        assert client.live() is False
        assert client.ready() is False


def test_infer_carries_every_tensor_both_ways(client: Client) -> None:
    inputs = {
        "history": np.arange(24, dtype=np.float32).reshape(2, 4, 3),
        "timestamps": np.arange(8, dtype=np.int64).reshape(2, 4),
        "flags": np.array([True, False]),
        "text": np.array([b"\x00raw", "größe"], dtype=object),
        "half": Tensor(np.array([1.5, -2.0]), "BF16"),
        "none": np.zeros((0, 4), np.float64),
    }
    result = client.infer("counter", inputs)
    assert list(result.outputs) == list(inputs)
    for name in ("history", "timestamps", "flags", "none"):
        np.testing.assert_array_equal(result.outputs[name], inputs[name], strict=True)
    assert result.outputs["text"].tolist() == [b"\x00raw", "größe".encode()]
    np.testing.assert_array_equal(result.outputs["half"], np.array([1.5, -2.0], np.float32), strict=True)


def test_infer_asks_for_outputs_and_versions_by_name(client: Client) -> None:
    inputs = {"a": np.zeros(2, np.float32), "b": np.ones(2, np.float32)}
    result = client.infer("counter", inputs, version=1, outputs=["b"])
    assert list(result.outputs) == ["b"]
    np.testing.assert_array_equal(result.outputs["b"], inputs["b"])
    assert (result.model, result.version) == ("counter", "1")


def test_infer_sends_parameters_and_sorts_those_that_come_back(
    client: Client, server: Behaviour, transport: str
) -> None:
    sent = {"flag": True, "count": 3, "share": 0.5, "word": "x"}
    result = client.infer("counter", {"a": np.zeros(1, np.float32)}, parameters=sent)
    body = server.seen[-1].body
    if transport == "http":
        length = int(server.seen[-1].headers["inference-header-content-length"])
        assert json.loads(body[:length])["parameters"] == sent | {"binary_data_output": True}
    else:
        assert {name: value.WhichOneof("parameter_choice") for name, value in body.parameters.items()} == {
            "flag": "bool_param",
            "count": "int64_param",
            "share": "double_param",
            "word": "string_param",
        }
    assert result.parameters == {"note": 3}
    assert (result.timings, result.digest, result.batch_rows) == (TIMINGS, DIGEST, 1)


@pytest.mark.parametrize("transport", ["http"])
def test_names_are_quoted_into_paths(client: Client, server: Behaviour) -> None:
    with pytest.raises(ModelNotFound):
        client.model("a/b c")
    assert server.seen[-1].name == "GET /v1/models/a%2Fb%20c"


@pytest.mark.parametrize("transport", ["http"])
def test_an_address_may_have_a_path_in_front(url: str, server: Behaviour) -> None:
    with Client(f"{url}/behind/proxy/") as client, pytest.raises(RouteNotFound):
        client.server()
    assert server.seen[-1].name == "GET /behind/proxy/v2"
