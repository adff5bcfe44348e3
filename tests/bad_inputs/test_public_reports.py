"""What users of other servers have reported, as promises of this one. Each test is named after what they saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from contextlib import ExitStack
from typing import Any

import etth1
import grpc
import numpy as np
import pytest
from live_server import LiveServer, StartServer, eventually
from raw_http import RawConnection, head
from refusals import check_envelope, check_http, check_rpc_error

from services.core.batcher import Batcher, BatchPolicy
from services.core.call import Call
from services.core.errors import ApiError

from . import busy
from .busy import at_once, memory, nothing_left, occupied, rows_request
from .case import FORECAST, INFER, INFER_CARD, but, infer, message, tensor

GROWTH_BYTES = 64 * 2**20
_HISTORY = ("history", "FP32", [1, 96, 7], etth1.history().tobytes())


@pytest.fixture(scope="module")
def slow(start_server: StartServer) -> LiveServer:
    """A server that runs rows one by one."""
    return start_server(environment=busy.ENVIRONMENT)


def _body(*series: Any, **fields: Any) -> bytes:
    return json.dumps(etth1.request(*series, **fields)).encode()


def _forecast(answer: Any) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    return np.stack([etth1.forecast_of(entry) for entry in answer.json()["series"]])


# --- batches


async def test_mixed_shapes_in_one_batch_failed_every_request(server: LiveServer) -> None:
    """Requests of other lengths, numbers of rows, clocks and models that arrive together: each as if it came alone."""
    starts = [etth1.START + 24 * i for i in range(12)]
    bodies = [
        *(_body(etth1.series(first)) for first in starts[:4]),
        *(_body(etth1.series(first), etth1.series(first + 7)) for first in starts[4:6]),
        *(_body(etth1.series(first, 96 + i)) for i, first in enumerate(starts[6:9])),
        *(_body(etth1.series(first, timestamps=None), model=etth1.CARD) for first in starts[9:]),
        _body(etth1.series(starts[0], timestamps=etth1.epochs(starts[0])), horizon=1),
    ]
    alone = [_forecast(server.post(FORECAST, content=body)) for body in bodies]
    together = await at_once(server, bodies * 3)
    for answer, expected in zip(together, alone * 3, strict=True):
        np.testing.assert_allclose(_forecast(answer), expected, rtol=1e-4, atol=1e-4)


async def test_an_empty_item_failed_its_batch(server: LiveServer) -> None:
    empty = json.dumps(etth1.request() | {"series": []}).encode()
    answers = await at_once(server, [empty if i == 7 else _body() for i in range(16)])
    check_http(answers.pop(7), 422, "empty_batch", "series")
    assert [answer.status_code for answer in answers] == [200] * 15


def test_rows_over_the_batch_limit_inside_one_request_were_an_error(server: LiveServer) -> None:
    """200 rows in one request, while a forward pass takes 64."""
    firsts = [etth1.START + i for i in range(200)]
    whole = etth1.history(*firsts)
    answer = server.post(INFER_CARD, json=infer(tensor(shape=list(whole.shape), data=whole.ravel().tolist())))
    assert answer.status_code == 200, answer.text
    got = np.array(answer.json()["outputs"][0]["data"]).reshape(200, 96, 7)
    for row in (0, 63, 64, 199):
        one = server.post(INFER_CARD, json=infer(tensor(data=whole[row].ravel().tolist())))
        expected = np.array(one.json()["outputs"][0]["data"]).reshape(96, 7)
        np.testing.assert_allclose(got[row], expected, rtol=1e-4, atol=1e-4)


async def test_one_raising_item_failed_its_batch_mates() -> None:
    """On the batcher itself, because no request makes a verified graph raise."""

    class Silent:
        def queue(self, rows: int) -> None: ...
        def batch(self, rows: int) -> None: ...
        def circuit(self, is_open: bool) -> None: ...

    gate = threading.Event()

    def run(sent: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert gate.wait(10)
        if (sent["x"] == 13).any():
            raise RuntimeError("unlucky")
        return {"y": sent["x"] * 2}

    batcher = Batcher(run, BatchPolicy(), Silent())
    values = [1.0, 2.0, 3.0, 13.0, 5.0, 6.0, 7.0, 8.0]
    work = [batcher.submit([{"x": np.full((1, 1), v)}], Call("/", "none", "")) for v in values]
    running = asyncio.gather(*work, return_exceptions=True)
    await asyncio.sleep(0)
    gate.set()
    outcomes = await running
    assert isinstance(outcomes[3], ApiError)
    assert outcomes[3].code == "inference_failed"
    assert [o[0]["y"].item() for o in outcomes if not isinstance(o, BaseException)] == [2, 4, 6, 10, 12, 14, 16]
    await batcher.close()


# --- values


def test_nan_in_json_became_null_or_a_forecast(server: LiveServer) -> None:
    """It is refused by its place; and no answer holds a number that JSON does not have."""
    bad = but(etth1.request(), "series.0.values.MULL.12", float("nan"))
    answer = server.post(FORECAST, content=json.dumps(bad))
    check_http(answer, 422, "value_not_finite", "series[0].values.MULL[12]")
    check_http(
        server.post(INFER, content=json.dumps(infer(tensor(data=[float("nan")] * 672)))),
        422, "value_not_finite", "history[0, 0, 0]",
    )  # fmt: skip
    good = server.post(FORECAST, json=etth1.request())
    json.loads(good.content, parse_constant=pytest.fail)
    assert np.isfinite(_forecast(good)).all()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"shape": [-1, 96, 7]}, "tensor_shape"),
        ({"shape": [-1, -1, -1]}, "tensor_shape"),
        ({"shape": [0, 96, 7], "data": []}, "empty_batch"),
        ({"shape": [1, 0, 7], "data": []}, "history_too_short"),
        ({"shape": [1, 96, 0], "data": []}, "tensor_shape"),
        ({"data": []}, "tensor_size"),
    ],
    ids=str,
)
def test_shape_minus_one_or_a_zero_length_input_ended_the_process(
    server: LiveServer, change: dict[str, Any], code: str
) -> None:
    workers = server.children()
    check_http(server.post(INFER, json=infer(tensor(**change))), 422, code, "history")
    assert server.children() == workers


def test_wrong_requested_output_names_ended_the_process(server: LiveServer) -> None:
    workers = server.children()
    for name in ("forecasts", "", "history", "f" * 10_000):
        check_http(server.post(INFER, json=infer(tensor(), outputs=[{"name": name}])), 422, "output_unknown", "outputs")
        call = message(_HISTORY)
        call.outputs.add(name=name)
        with grpc.insecure_channel(server.grpc_address) as channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(call.SerializeToString(), timeout=30)
        check_rpc_error(refused.value, "INVALID_ARGUMENT", "output_unknown", "outputs")
    assert server.children() == workers


# --- bodies


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_100_megabytes_was_read_into_memory(server: LiveServer, chunked: bool) -> None:
    """It is refused while it is being sent, the caller can read the refusal, and the memory stays."""
    before, size, piece = memory(server), 100 * 10**6, b" " * 10**6
    framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(size)}
    with RawConnection(server) as connection:
        connection.send(head("POST", FORECAST, framing))
        for _ in range(size // len(piece)):
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        connection.send(b"0\r\n\r\n" if chunked else b"")
        answer = connection.answer()
    assert answer.status == 413
    assert answer.json()["error"]["code"] == "payload_too_large"
    assert memory(server) < before + GROWTH_BYTES


def test_a_caller_who_aborts_the_upload_left_a_request_behind(server: LiveServer) -> None:
    whole = _body()
    for i in range(60):
        path = FORECAST if i % 2 else INFER_CARD
        with RawConnection(server) as connection:
            connection.send(head("POST", path, {"Content-Length": str(len(whole))}) + whole[: len(whole) * i // 60])
    nothing_left(server)
    assert server.post(FORECAST, content=whole).status_code == 200


def test_uploads_that_never_end_kept_their_places_for_ever(start_server: StartServer) -> None:
    """A body has to arrive within the request's deadline; its caller is told, and its place is free again."""
    few = {"PRESSROOM_MAX_IN_FLIGHT": "4", "PRESSROOM_REQUEST_TIMEOUT_MS": "1500"}
    server = start_server(environment=few)
    with ExitStack() as opened:
        stalled = [opened.enter_context(RawConnection(server)) for _ in range(4)]
        for connection, path in zip(stalled, (FORECAST, INFER, INFER_CARD, "/v2/repository/index"), strict=True):
            connection.send(head("POST", path, {"Content-Length": "1000"}) + b'{"inputs":')
        eventually(lambda: server.post(FORECAST, content=_body()).status_code == 429, "all places are taken", 1.0)
        for connection in stalled:
            answer = connection.answer()
            assert (answer.status, answer.headers["connection"]) == (504, "close")
            check_envelope(answer.json(), "deadline_exceeded", None)
            assert connection.at_end()
    assert server.post(FORECAST, content=_body()).status_code == 200


# --- callers who go away, models that are slow


async def test_abandoned_calls_by_the_thousand_kept_running_and_leaked(slow: LiveServer) -> None:
    """Their work is dropped, no gauge keeps them, the memory stays, and the next caller is answered at once."""
    draw, raw = random.Random(5), message(_HISTORY, model=etth1.CARD).SerializeToString()

    async def abandoned(channel: grpc.aio.Channel) -> None:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(raw, timeout=draw.choice((0.01, 20)))
        await asyncio.sleep(draw.uniform(0, 0.04))
        call.cancel()
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            await call

    async def thousand() -> None:
        async with grpc.aio.insecure_channel(slow.grpc_address) as channel:
            for _ in range(20):
                await asyncio.gather(*(abandoned(channel) for _ in range(50)))

    await thousand()
    nothing_left(slow)
    before = memory(slow)
    with occupied(slow, 2500):
        await thousand()
        await thousand()
    nothing_left(slow)
    assert memory(slow) < before + GROWTH_BYTES
    assert slow.metric("pressroom_requests_total", protocol="grpc", code="cancelled") > 0
    assert slow.metric("pressroom_circuit_open") == 0
    began = time.monotonic()
    assert slow.post(FORECAST, content=_body(model=etth1.CARD)).status_code == 200
    assert time.monotonic() - began < 5


def test_a_slow_model_with_a_full_queue_made_callers_hang(slow: LiveServer) -> None:
    """They are told at once, with the time to come back; the other model answers as ever."""
    body, headers = rows_request(1500)
    with occupied(slow, 2500):
        began = time.monotonic()
        refused = slow.post(INFER_CARD, content=body, headers=headers)
        assert time.monotonic() - began < 5
        error = check_http(refused, 429, "queue_full", None)
        assert 50 <= error["retry_after_ms"] <= 30_000
        assert int(refused.headers["retry-after"]) == -(-error["retry_after_ms"] // 1000)
        assert slow.post(FORECAST, content=_body(model=etth1.ITRANSFORMER)).status_code == 200


def test_the_readiness_probe_timed_out_while_the_model_was_busy(slow: LiveServer) -> None:
    """Each answer within the second a probe is usually given, on every port."""
    with occupied(slow, 2500), grpc.insecure_channel(slow.grpc_address) as channel:
        for _ in range(15):
            for path in ("/readyz", "/livez", "/v2/health/ready", "/v2/models/card-etth1/ready"):
                assert slow.get(path, timeout=1).status_code == 200
            answer = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=1)
            assert answer == b"\x08\x01"  # SERVING
