"""Bodies and rows beyond the limits are refused by name, even while they are still being sent."""

from __future__ import annotations

import gzip
import json

import etth1
import grpc
import pytest
from live_server import LiveServer, StartServer
from raw_http import RawConnection, head
from refusals import check_envelope, check_grpc, check_http, grpc_infer
from tensor_cases import as_binary, as_json, as_message, history

LIMIT = 64 * 1024
ROWS = 3
GOOD = json.dumps(etth1.request()).encode()
INFER = f"/v2/models/{etth1.CARD}/infer"


@pytest.fixture(scope="module")
def small(start_server: StartServer) -> LiveServer:
    """A server that takes 64 KiB and three rows."""
    limits = {"PRESSROOM_BODY_LIMIT_BYTES": str(LIMIT), "PRESSROOM_MAX_REQUEST_ROWS": str(ROWS)}
    return start_server(environment=limits)


def _chunks(size: int) -> list[bytes]:
    return [b" " * 16384] * (size // 16384)


@pytest.mark.parametrize("path", [etth1.FORECAST, INFER])
def test_a_body_larger_than_the_limit_is_refused(small: LiveServer, path: str) -> None:
    response = small.post(path, content=b" " * (LIMIT + 1))
    error = check_http(response, 413, "payload_too_large", None)
    assert str(LIMIT) in error["message"]


def test_a_body_of_exactly_the_limit_is_read(small: LiveServer) -> None:
    response = small.post(etth1.FORECAST, content=GOOD.ljust(LIMIT))
    assert response.status_code == 200


@pytest.mark.parametrize("path", [etth1.FORECAST, INFER])
def test_a_chunked_body_larger_than_the_limit_is_refused(small: LiveServer, path: str) -> None:
    response = small.post(path, content=iter(_chunks(2**20)))
    check_http(response, 413, "payload_too_large", None)


def test_a_chunked_body_within_the_limit_is_read(small: LiveServer) -> None:
    parts = [GOOD[i : i + 1000] for i in range(0, len(GOOD), 1000)]
    assert small.post(etth1.FORECAST, content=iter(parts)).status_code == 200


def test_a_caller_who_sends_far_more_than_the_limit_can_still_read_the_refusal(small: LiveServer) -> None:
    size = 32 * 2**20
    with RawConnection(small) as connection:
        connection.send(head("POST", etth1.FORECAST, {"Content-Length": str(size), "X-Request-Id": "big"}))
        for chunk in _chunks(size):
            connection.send(chunk)
        answer = connection.answer()
        assert answer.status == 413
        assert check_envelope(answer.json(), "payload_too_large", None)["request_id"] == "big"
        assert answer.headers["connection"] == "close"
        assert connection.at_end()


def test_a_caller_who_asks_first_is_refused_before_sending(small: LiveServer) -> None:
    with RawConnection(small) as connection:
        fields = {"Content-Length": str(LIMIT + 1), "Expect": "100-continue"}
        connection.send(head("POST", etth1.FORECAST, fields))
        answer = connection.answer()
    assert answer.status == 413
    check_envelope(answer.json(), "payload_too_large", None)


def test_a_caller_who_asks_first_and_may_send_is_answered(small: LiveServer) -> None:
    with RawConnection(small) as connection:
        fields = {"Content-Length": str(len(GOOD)), "Expect": "100-continue"}
        connection.send(head("POST", etth1.FORECAST, fields))
        assert connection.answer().status == 100
        connection.send(GOOD)
        assert connection.answer().status == 200


@pytest.mark.parametrize("path", [etth1.FORECAST, INFER])
def test_a_small_body_that_inflates_beyond_the_limit_is_refused(small: LiveServer, path: str) -> None:
    bomb = gzip.compress(b" " * (32 * 2**20))
    assert len(bomb) < LIMIT
    response = small.post(path, content=bomb, headers={"Content-Encoding": "gzip"})
    check_http(response, 413, "payload_too_large", None)


def test_a_content_length_that_lies_is_not_trusted(small: LiveServer) -> None:
    """Too many digits for any machine: refused as too large or as no HTTP, and the server lives."""
    with RawConnection(small) as connection:
        connection.send(head("POST", etth1.FORECAST, {"Content-Length": "9" * 19, "Expect": "100-continue"}))
        assert connection.answer().status in (400, 413)
    assert small.get("/livez").status_code == 200


def test_more_rows_than_the_limit_are_refused(small: LiveServer) -> None:
    too_many = etth1.request(*(etth1.series() for _ in range(ROWS + 1)))
    error = check_http(small.post(etth1.FORECAST, json=too_many), 422, "too_many_rows", "series")
    assert str(ROWS) in error["message"]
    tensors = history(etth1.history(*[etth1.START] * (ROWS + 1)))
    document, raw = as_binary([tensors])
    headers = {"Inference-Header-Content-Length": str(len(json.dumps(document)))}
    response = small.post(INFER, content=json.dumps(document).encode() + raw, headers=headers)
    check_http(response, 422, "too_many_rows", "history")


def test_as_many_rows_as_the_limit_are_answered(small: LiveServer) -> None:
    most = etth1.request(*(etth1.series() for _ in range(ROWS)))
    assert len(small.post(etth1.FORECAST, json=most).json()["series"]) == ROWS


def test_a_grpc_message_larger_than_the_limit_is_refused_in_our_words(small: LiveServer) -> None:
    rows = 1 + LIMIT // etth1.history().nbytes
    message = as_message(etth1.CARD, [history(etth1.history(*[etth1.START] * rows))])
    error = check_grpc(small, message, "RESOURCE_EXHAUSTED", "payload_too_large", None)
    assert str(LIMIT) in error["message"]


def test_a_grpc_message_beyond_all_measure_is_refused_by_the_transport(small: LiveServer) -> None:
    message = as_message(etth1.CARD, [history(etth1.history(*[etth1.START] * 200))])
    with pytest.raises(grpc.RpcError) as refused:
        grpc_infer(small, message)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_after_a_refused_body_the_server_answers_as_before(small: LiveServer) -> None:
    small.post(etth1.FORECAST, content=b" " * (LIMIT + 1))
    assert small.post(INFER, json=as_json([history()])).status_code == 200
