"""One request, every way in: the official programs' forecasts come out, whoever asks and in whatever company.

Tolerances. Official samples: the certificate's own (training standard deviations). Between ways in: 1e-6 relative,
because native JSON carries float64 and the protocol's tensors float32. Between batches: the certificate's, because
float32 sums may be taken in another order when rows share a forward pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import etth1
import httpx
import numpy as np
import pandas as pd
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from etth1 import MODELS, official
from live_server import LiveServer
from pressroom_client import Client

SAME = {"rtol": 1e-6, "atol": 1e-5}  # float32 rounding of values up to 50 in raw units
OIP = "/v2/models/{}/infer"

Ask = Callable[[LiveServer, str, int], np.ndarray]


@pytest.fixture(scope="module")
def tolerance(server: LiveServer) -> dict[str, Any]:
    """What each model's certificate promises, by model name."""
    return {m["id"]: m["certificate"]["tolerance"] for m in server.get("/v1/models").json()["data"]}


def native_json(server: LiveServer, model: str, first: int) -> np.ndarray:
    request = etth1.request(etth1.series(first), model=model)
    answer = server.post(etth1.FORECAST, json=request).raise_for_status().json()
    return etth1.forecast_of(answer["series"][0])


def protocol_json(server: LiveServer, model: str, first: int) -> np.ndarray:
    inputs = [
        {"name": "history", "datatype": "FP32", "shape": [1, 96, 7], "data": etth1.history(first).ravel().tolist()},
        {"name": "timestamps", "datatype": "INT64", "shape": [1, 96], "data": etth1.clock(first).tolist()},
    ]
    answer = server.post(OIP.format(model), json={"inputs": inputs}).raise_for_status().json()
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("forecast", "FP32", [1, 96, 7])
    return np.array(output["data"], dtype=np.float32).reshape(96, 7)


def triton_http_answer(server: LiveServer, model: str, first: int, *, binary: bool) -> np.ndarray:
    with triton_http.InferenceServerClient(server.address) as client:
        inputs = [
            triton_http.InferInput("history", [1, 96, 7], "FP32"),
            triton_http.InferInput("timestamps", [1, 96], "INT64"),
        ]
        inputs[0].set_data_from_numpy(etth1.history(first), binary_data=binary)
        inputs[1].set_data_from_numpy(etth1.clock(first), binary_data=binary)
        wanted = [triton_http.InferRequestedOutput("forecast", binary_data=binary)]
        return client.infer(model, inputs, outputs=wanted).as_numpy("forecast")[0]


def triton_http_binary(server: LiveServer, model: str, first: int) -> np.ndarray:
    return triton_http_answer(server, model, first, binary=True)


def triton_http_json(server: LiveServer, model: str, first: int) -> np.ndarray:
    return triton_http_answer(server, model, first, binary=False)


def triton_grpc_answer(server: LiveServer, model: str, first: int) -> np.ndarray:
    with triton_grpc.InferenceServerClient(server.grpc_address) as client:
        inputs = [
            triton_grpc.InferInput("history", [1, 96, 7], "FP32"),
            triton_grpc.InferInput("timestamps", [1, 96], "INT64"),
        ]
        inputs[0].set_data_from_numpy(etth1.history(first))
        inputs[1].set_data_from_numpy(etth1.clock(first))
        return client.infer(model, inputs).as_numpy("forecast")[0]


def _frame(first: int) -> pd.DataFrame:
    index = pd.DatetimeIndex(pd.to_datetime(etth1.stamps(first)))
    return pd.DataFrame(etth1.values(first), index=index, columns=list(etth1.COLUMNS))


def _ours(address: str, model: str, first: int) -> np.ndarray:
    with Client(address) as client:
        frame = client.forecast(_frame(first), model=model).frame
    assert tuple(frame.columns) == etth1.COLUMNS
    assert [str(t) for t in frame.index] == etth1.stamps(first + 96)
    return frame.to_numpy()


def our_client_http(server: LiveServer, model: str, first: int) -> np.ndarray:
    return _ours(server.url, model, first)


def our_client_grpc(server: LiveServer, model: str, first: int) -> np.ndarray:
    return _ours(f"grpc://{server.grpc_address}", model, first)


def our_tensors(address: str, model: str, first: int) -> np.ndarray:
    with Client(address) as client:
        answer = client.infer(model, {"history": etth1.history(first), "timestamps": etth1.clock(first)})
    return answer.outputs["forecast"][0]


def our_tensors_http(server: LiveServer, model: str, first: int) -> np.ndarray:
    return our_tensors(server.url, model, first)


def our_tensors_grpc(server: LiveServer, model: str, first: int) -> np.ndarray:
    return our_tensors(f"grpc://{server.grpc_address}", model, first)


WAYS: tuple[Ask, ...] = (
    native_json,
    protocol_json,
    triton_http_binary,
    triton_http_json,
    triton_grpc_answer,
    our_client_http,
    our_client_grpc,
    our_tensors_http,
    our_tensors_grpc,
)


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("ask", WAYS, ids=lambda ask: ask.__name__)
def test_every_way_in_gives_the_official_forecast(
    server: LiveServer, tolerance: dict[str, Any], ask: Ask, architecture: str
) -> None:
    truth, model = official(architecture), MODELS[architecture]
    got = np.stack([ask(server, model, first) for first in truth.first])
    etth1.assert_within_certificate(got, truth.scaled, architecture, tolerance[model])
    _, std = etth1.scaler(architecture)
    atol, rtol = tolerance[model]["atol"] * std, tolerance[model]["rtol"]
    assert (np.abs(got - truth.units) <= atol + rtol * np.abs(truth.units)).all()


@pytest.mark.parametrize("architecture", MODELS)
def test_every_way_in_gives_the_same_answer(server: LiveServer, architecture: str) -> None:
    first, *others = (ask(server, MODELS[architecture], etth1.START) for ask in WAYS)
    for ask, other in zip(WAYS[1:], others, strict=True):
        np.testing.assert_allclose(other, first, **SAME, err_msg=ask.__name__)


def test_without_timestamps_itransformer_forecasts_without_the_calendar_and_says_so(
    server: LiveServer, tolerance: dict[str, Any]
) -> None:
    truth = official("itransformer")
    with Client(server.url) as client:
        answer = client.infer(etth1.ITRANSFORMER, {"history": etth1.history(*truth.first)})
    assert answer.parameters["calendar"] == "absent"
    assert truth.unmarked is not None
    got = answer.outputs["forecast"]
    etth1.assert_within_certificate(got, truth.unmarked, "itransformer", tolerance[etth1.ITRANSFORMER])


def test_with_timestamps_itransformer_says_that_it_read_the_calendar(server: LiveServer) -> None:
    with Client(server.url) as client:
        answer = client.infer(etth1.ITRANSFORMER, {"history": etth1.history(), "timestamps": etth1.clock()})
    assert answer.parameters["calendar"] == "present"


def test_card_reads_no_calendar(server: LiveServer) -> None:
    with Client(server.url) as client:
        with_clock = client.infer(etth1.CARD, {"history": etth1.history(), "timestamps": etth1.clock()})
        without = client.infer(etth1.CARD, {"history": etth1.history()})
    np.testing.assert_allclose(with_clock.outputs["forecast"], without.outputs["forecast"], **SAME)
    assert "calendar" not in with_clock.parameters


@pytest.fixture(scope="module")
def alone(server: LiveServer) -> dict[str, np.ndarray]:
    """Forecasts of the five official windows, each asked for by itself."""
    return {
        model: np.stack([native_json(server, model, first) for first in official(architecture).first])
        for architecture, model in MODELS.items()
    }


@pytest.mark.parametrize("architecture", MODELS)
def test_as_a_row_of_a_request_of_seven_the_answer_is_the_same_as_alone(
    server: LiveServer, tolerance: dict[str, Any], alone: dict[str, np.ndarray], architecture: str
) -> None:
    firsts, model = official(architecture).first, MODELS[architecture]
    rows = [300, *firsts, 700]
    request = etth1.request(*(etth1.series(first, id=f"row {first}") for first in rows), model=model)
    answer = server.post(etth1.FORECAST, json=request).raise_for_status().json()
    assert [entry["id"] for entry in answer["series"]] == [f"row {first}" for first in rows]
    assert answer["batch_rows"] >= 7
    got = np.stack([etth1.forecast_of(entry) for entry in answer["series"][1:6]])
    mean, std = etth1.scaler(architecture)
    etth1.assert_within_certificate(got, (alone[model] - mean) / std, architecture, tolerance[model])


def _crowd() -> Iterator[tuple[str, int, int]]:
    """32 requests: architecture, which official window, which protocol."""
    for i in range(32):
        yield ("itransformer", "card")[i % 2], i // 2 % 5, i // 4 % 2


async def test_among_32_mixed_concurrent_requests_the_answer_is_the_same_as_alone(
    server: LiveServer, tolerance: dict[str, Any], alone: dict[str, np.ndarray]
) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:

        async def ask(architecture: str, window: int, tensors: int) -> np.ndarray:
            first, model = official(architecture).first[window], MODELS[architecture]
            if tensors:
                return await asyncio.to_thread(our_tensors_grpc, server, model, first)
            response = await client.post(etth1.FORECAST, json=etth1.request(etth1.series(first), model=model))
            return etth1.forecast_of(response.raise_for_status().json()["series"][0])

        crowd = list(_crowd())
        answers = await asyncio.gather(*(ask(*one) for one in crowd))
    for (architecture, window, _), got in zip(crowd, answers, strict=True):
        mean, std = etth1.scaler(architecture)
        lone = (alone[MODELS[architecture]][window] - mean) / std
        etth1.assert_within_certificate(got, lone, architecture, tolerance[MODELS[architecture]])
