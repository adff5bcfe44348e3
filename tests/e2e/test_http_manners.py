"""HTTP itself: what is not JSON, not a route, not a method; request ids, deadlines, HEAD, keep-alive, pipelining."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import etth1
import httpx
import pytest
from live_server import LiveServer
from raw_http import RawConnection, head
from refusals import check_http

GOOD = json.dumps(etth1.request()).encode()
INFER = f"/v2/models/{etth1.CARD}/infer"


def post(server: LiveServer, content: bytes, path: str = etth1.FORECAST, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.post(path, content=content, headers=named)


@pytest.mark.parametrize("path", [etth1.FORECAST, INFER])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"not json", b'{"a": 1} more', b"\xff\xfe\x00", b'{"a": "\xe9"}', b"{'a': 1}"]
)
def test_a_body_that_is_not_json_is_refused(server: LiveServer, path: str, body: bytes) -> None:
    check_http(post(server, body, path), 400, "invalid_json", None)


@pytest.mark.parametrize("path", [etth1.FORECAST, INFER])
@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"12"])
def test_json_that_is_not_an_object_is_refused(server: LiveServer, path: str, body: bytes) -> None:
    check_http(post(server, body, path), 422, "invalid_request", None)


def test_json_nested_beyond_reason_is_refused_and_the_server_lives(server: LiveServer) -> None:
    for body in (b"[" * 200_000, b'{"series":' + b"[" * 100_000 + b"NaN" + b"]" * 100_000 + b"}"):
        check_http(post(server, body), 400, "invalid_json", None)
    assert server.get("/livez").status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "image/png"]
)
def test_a_content_type_the_route_does_not_read_is_refused(server: LiveServer, kind: str) -> None:
    error = check_http(post(server, GOOD, Content_Type=kind), 415, "unsupported_media_type", "Content-Type")
    assert kind in error["message"]
    assert "application/json" in error["hint"]


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])
def test_json_content_types_are_read(server: LiveServer, kind: str) -> None:
    assert post(server, GOOD, Content_Type=kind).status_code == 200


@pytest.mark.parametrize("path", [etth1.FORECAST, INFER])
def test_a_content_encoding_the_server_does_not_read_is_refused(server: LiveServer, path: str) -> None:
    check_http(post(server, GOOD, path, Content_Encoding="br"), 415, "unsupported_media_type", "Content-Encoding")


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_bodies_are_read(server: LiveServer, encoding: str, compress: Callable[[bytes], bytes]) -> None:
    response = post(server, compress(GOOD), Content_Encoding=encoding)
    plain = post(server, GOOD)
    assert response.json()["series"] == plain.json()["series"]


@pytest.mark.parametrize("body", [GOOD, gzip.compress(GOOD)[:-9], b"\x1f\x8b" + b"\x00" * 40, b""])
def test_a_body_that_is_not_what_its_encoding_says_is_refused(server: LiveServer, body: bytes) -> None:
    check_http(post(server, body, Content_Encoding="gzip"), 400, "invalid_json", None)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/forecast/", "/v1/forecasts", "/v2/models", "/v3/health/live"])
def test_an_unknown_route_is_refused(server: LiveServer, method: str, path: str) -> None:
    check_http(server.request(method, path), 404, "route_not_found", None)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", etth1.FORECAST, "POST"),
        ("PUT", etth1.FORECAST, "POST"),
        ("HEAD", etth1.FORECAST, "POST"),
        ("GET", INFER, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", f"/v1/models/{etth1.CARD}", "GET"),
        ("POST", "/readyz", "GET"),
        ("POST", "/v2/health/live", "GET"),
        ("GET", "/v2/repository/index", "POST"),
    ],
)
def test_the_wrong_method_is_refused_and_the_right_one_named(
    server: LiveServer, method: str, path: str, allowed: str
) -> None:
    response = server.request(method, path)
    assert response.headers["allow"] == allowed
    if method == "HEAD":
        assert (response.status_code, response.content) == (405, b"")
    else:
        error = check_http(response, 405, "method_not_allowed", None)
        assert allowed in error["message"]


@pytest.mark.parametrize("value", ["0", "-5", "1.5", "soon", "", "9999999999", "9" * 40])
def test_a_deadline_that_is_no_positive_number_is_refused(server: LiveServer, value: str) -> None:
    response = post(server, GOOD, X_Request_Timeout_Ms=value)
    check_http(response, 422, "invalid_request", "X-Request-Timeout-Ms")


def test_a_request_within_its_deadline_is_answered(server: LiveServer) -> None:
    assert post(server, GOOD, X_Request_Timeout_Ms="30000").status_code == 200


@pytest.mark.parametrize("sent", ["order-17", "a" * 128, "~!@#$%^&*()_+{}|:<>?"])
def test_the_callers_request_id_comes_back_in_header_body_and_refusal(server: LiveServer, sent: str) -> None:
    answer = post(server, GOOD, X_Request_Id=sent)
    assert (answer.headers["x-request-id"], answer.json()["request_id"]) == (sent, sent)
    refusal = post(server, b"{}", X_Request_Id=sent)
    assert check_http(refusal, 422, "invalid_request", "model")["request_id"] == sent
    assert server.get("/nowhere", headers={"X-Request-Id": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["two words", "a" * 129, "tab\there", ""])
def test_an_unusable_request_id_is_replaced(server: LiveServer, sent: str) -> None:
    answer = post(server, GOOD, X_Request_Id=sent)
    given = answer.headers["x-request-id"]
    assert given
    assert given != sent
    assert answer.json()["request_id"] == given


def test_every_answer_has_a_request_id_of_its_own(server: LiveServer) -> None:
    paths = ["/livez", "/readyz", "/metrics", "/v1/models", "/v2", "/docs", "/openapi.json", "/nowhere"]
    given = [server.get(path).headers["x-request-id"] for path in paths]
    assert len(set(given)) == len(paths)


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/v2", "/v1/models", "/openapi.json", "/docs", "/v2/health/ready"]
)
def test_head_answers_as_get_without_the_body(server: LiveServer, path: str) -> None:
    got, asked = server.get(path), server.request("HEAD", path)
    assert asked.status_code == got.status_code == 200
    assert asked.content == b""
    for header in ("content-type", "content-length"):
        assert asked.headers[header] == got.headers[header]


def test_after_head_the_connection_is_still_in_step(server: LiveServer) -> None:
    with RawConnection(server) as connection:
        connection.send(head("HEAD", "/v1/models", {}) + head("GET", "/v2", {}))
        raw = connection._until(b"\r\n\r\n")
        assert raw.startswith(b"HTTP/1.1 200")
        assert connection.answer().json()["name"] == "pressroom"


def test_one_connection_answers_many_requests_good_and_bad(server: LiveServer) -> None:
    with RawConnection(server) as connection:
        for body, status in [(GOOD, 200), (b"{", 400), (GOOD, 200), (b"{}", 422), (GOOD, 200)]:
            connection.post(etth1.FORECAST, body)
            assert connection.answer().status == status


def test_pipelined_requests_are_answered_in_their_order(server: LiveServer) -> None:
    ids = [f"request-{i}" for i in range(8)]
    with RawConnection(server) as connection:
        for i, name in enumerate(ids):
            body = b"{" if i == 3 else json.dumps(etth1.request(etth1.series(id=name))).encode()
            connection.post(etth1.FORECAST, body, X_Request_Id=name)
        answers = [connection.answer() for _ in ids]
    assert [answer.headers["x-request-id"] for answer in answers] == ids
    assert [answer.status for answer in answers] == [400 if i == 3 else 200 for i in range(8)]
    assert [a.json()["series"][0]["id"] for a in answers if a.status == 200] == [n for n in ids if n != "request-3"]
