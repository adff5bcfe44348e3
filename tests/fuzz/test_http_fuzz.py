"""HTTP as no client would write it, over bare sockets: no answer is a 5xx, nothing is left behind, the server lives."""

from __future__ import annotations

import random
import re
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import etth1
import psutil
import pytest
from live_server import LiveServer, eventually

SEED = 20
CONNECTIONS = 1500
SECONDS = 5.0  # longest wait for an answer that must come
PATIENCE_SECONDS = 0.1  # longest wait for one that may not come, because the request has no end
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_PATHS = (
    "/v1/forecast", "/v2/models/card-etth1/infer", "/v1/models", "/v1/models/card-etth1", "/readyz", "/livez", "/v2",
    "/metrics", "/v2/repository/index", "/v2/repository/models/card-etth1/load", "/docs", "/nowhere", "/",
)  # fmt: skip
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PRI", "get", "BREW", "", "G" * 300)
_VERSIONS = (
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "HTTP/0.9",
    "HTTP/9.9",
    "HTTP/1.1 ",
    "",
    "http/1.1",
    "HTTP/1.",
    "RTSP/1.0",
)
_LENGTHS = (
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "1" * 500,
    "0x10",
    "5, 5",
    "5 5",
    "",
    "+5",
    "1e3",
    "16777217",
    "4096",
)
_NAMES = (
    "X-Request-Id", "X-Request-Timeout-Ms", "X-Priority", "X-Model-Version", "Inference-Header-Content-Length",
    "Content-Encoding", "Content-Type", "Authorization", "X-API-Key", "Expect", "Connection", "Upgrade", "Cookie",
    "traceparent", "Host", "Range", "X-Forwarded-For", "X-" + "a" * 400,
)  # fmt: skip

_ENDS = ("?a=b", "%00", "%ff", "/../..", "#x", "?" + "q" * 3000, "%zz", "\xe9", " ")
_VALUES = (
    b"",
    b"gzip",
    b"100-continue",
    b"close",
    b"websocket",
    b"h2c",
    b"1",
    b"9" * 400,
    b"application/json",
    b"text/x",
)
_CHUNKS = (
    b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n", b"-1\r\nx\r\n", b"zz\r\n", b"5;x=y\r\nhello\r\n"
)  # fmt: skip


def _noise(draw: random.Random, most: int) -> bytes:
    return draw.randbytes(draw.randint(0, most))


def _odd(draw: random.Random) -> bool:
    """One part in eight is not what it should be."""
    return draw.random() < 0.125


def _line(draw: random.Random) -> bytes:
    """A request line."""
    path = draw.choice(_PATHS) + (draw.choice(_ENDS) if _odd(draw) else "")
    method = draw.choice(_METHODS) if _odd(draw) else draw.choice(("GET", "POST"))
    version = draw.choice(_VERSIONS) if _odd(draw) else "HTTP/1.1"
    line = f"{method} {path} {version}".encode()
    return line[: draw.randint(0, len(line))] + _noise(draw, 20) if draw.random() < 0.03 else line


def _header(draw: random.Random) -> bytes:
    value = _noise(draw, 60).replace(b"\n", b"") if draw.random() < 0.05 else draw.choice(_VALUES)
    return draw.choice(_NAMES).encode() + (draw.choice((b":", b" : ", b"")) if draw.random() < 0.05 else b": ") + value


def _framing(draw: random.Random, size: int) -> bytes:
    """How long the body is said to be."""
    if not _odd(draw):
        return b"Content-Length: %d" % size
    chunked = b"Transfer-Encoding: " + draw.choice((b"chunked", b"gzip, chunked", b"xchunked", b"chunked, chunked"))
    length = b"Content-Length: " + draw.choice(_LENGTHS).encode()
    return draw.choice((b"", length, length, chunked, length + b"\r\n" + chunked, length + b"\r\nContent-Length: 7"))


def _body(draw: random.Random) -> bytes:
    return draw.choice((b"", b"{}", b"{", *_CHUNKS, _noise(draw, 4000), b'{"inputs":[]}' + _noise(draw, 100)))


def random_request(draw: random.Random) -> bytes:
    """The next request of a seeded generator; may be cut anywhere."""
    kind = draw.random()
    if kind < 0.03:
        return _noise(draw, 2000)
    flood = draw.choice((150, 3000)) if kind > 0.98 else draw.randint(0, 5)
    body = _body(draw)
    lines = [_line(draw), b"Host: x", *(_header(draw) for _ in range(flood)), _framing(draw, len(body))]
    end = b"\n" if draw.random() < 0.05 else b"\r\n"
    whole = end.join(line for line in lines if line) + end * 2 + body
    return whole[: draw.randint(0, len(whole))] if _odd(draw) else whole


def _exchange(server: LiveServer, request: bytes, patience: float = PATIENCE_SECONDS) -> list[int]:
    """Statuses the server sent until it closed the connection, or had nothing to add for `patience` seconds."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
        try:
            connection.sendall(request)
            connection.settimeout(patience)
            while data := connection.recv(65536):
                received += data
        except OSError:
            pass  # it waits for more, or hung up on nonsense
    return [int(status) for status in _STATUS.findall(received)]


def test_no_malformed_request_gets_a_5xx_and_none_is_left_behind(server: LiveServer) -> None:
    draw, statuses = random.Random(SEED), Counter[int]()
    workers = server.children()
    requests = [random_request(draw) for _ in range(CONNECTIONS)]
    with ThreadPoolExecutor(8) as callers:
        for request, answers in zip(requests, callers.map(lambda r: _exchange(server, r), requests), strict=True):
            assert all(status < 500 for status in answers), request[:500]
            statuses.update(answers)
    assert {200, 400, 404, 405, 415, 422} <= statuses.keys()
    assert statuses.total() > CONNECTIONS / 2
    assert server.children() == workers
    _nothing_left(server)
    _still_well(server)


def _headers(size: int) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (i, b"v" * 90) for i in range(size // 100))


@pytest.mark.parametrize("size", [2_000, 50_000])
def test_many_headers_are_read(server: LiveServer, size: int) -> None:
    request = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + _headers(size) + b"\r\n"
    assert _exchange(server, request, SECONDS) == [200]


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + _headers(20_000_000),
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: " + b"v" * 20_000_000,
        b"POST /v1/forecast?" + b"v" * 20_000_000,
    ],
    ids=["headers", "one header", "a path"],
)
def test_a_flood_before_the_body_is_cut_off_and_not_kept(server: LiveServer, request_head: bytes) -> None:
    before = _memory(server)
    assert _exchange(server, request_head, SECONDS) in ([], [400])  # our own writing may fail before we can read
    assert _memory(server) < before + 8 * 2**20
    _still_well(server)


@pytest.mark.parametrize("length", ["1", "0", "9" * 30, "-5", "07", "2147483648", "\xb2", " 12 ", "12\t", "1_0"])
def test_a_binary_header_length_of_any_kind_is_refused(server: LiveServer, length: str) -> None:
    head = "POST /v2/models/card-etth1/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n"
    request = f"{head}Inference-Header-Content-Length: {length}\r\n\r\n{{}}".encode("latin-1")
    assert _exchange(server, request, SECONDS) in ([400], [422])


def test_slow_partial_headers_keep_nobody_waiting_and_are_cut_off(server: LiveServer) -> None:
    """Forty callers who never finish their headers, some sending a byte now and then, some nothing at all."""
    dawdling = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(40)]
    for connection in dawdling[10:]:
        connection.sendall(b"POST /v1/forecast HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    for _ in range(5):
        for connection in dawdling[20:]:
            connection.sendall(b"a")
        began = time.monotonic()
        _still_well(server)
        assert time.monotonic() - began < SECONDS
    for connection in dawdling:
        with connection:
            assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
            assert connection.recv(1000) == b""
    _nothing_left(server)


def _memory(server: LiveServer) -> int:
    """Resident bytes of the server's worker processes."""
    return sum(psutil.Process(pid).memory_info().rss for pid in server.children())


def _nothing_left(server: LiveServer) -> None:
    """No request is in flight but for the one that asks."""
    eventually(lambda: server.metric("pressroom_in_flight_requests", protocol="http") == 1, "no request is in flight")


def _still_well(server: LiveServer) -> None:
    assert server.post(etth1.FORECAST, json=etth1.request()).status_code == 200
    assert server.get("/readyz").status_code == 200
