"""The load generator against tiny servers: what it counts, keeps and refuses; and one whole run of both programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import grpc
import numpy as np
import orjson
import pytest

from benchmarks.clients import KEEP_EVERY, Tally, grpc_clients, http_clients
from benchmarks.server import ROOT
from benchmarks.windows import split_windows
from benchmarks.wires import INFER_METHOD, WIRES
from services.core.oip.codec import decode_request
from services.core.oip.messages import ModelInferRequest


async def _http_server(answer):
    async def handle(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                writer.write(answer(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0)


def _port(server):
    return server.sockets[0].getsockname()[1]


def _respond(status, body):
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _posts(count):
    return [b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n" + str(i).encode() for i in range(count)]


async def _until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_http_clients_count_good_answers_and_keep_a_sample():
    async with await _http_server(lambda body: _respond("200 OK", b"=" + body)) as server:
        tally = Tally(_posts(10))
        async with http_clients(tally, 3, "127.0.0.1", _port(server)):
            tally.measuring = True
            await _until(lambda: len(tally.latencies) > 2 * KEEP_EVERY)
    assert tally.failed == 0
    assert len(tally.kept) == (len(tally.latencies) + KEEP_EVERY - 1) // KEEP_EVERY
    assert all(body == b"=%d" % index for index, _, body in tally.kept)
    assert min(tally.latencies) > 0


async def test_http_clients_count_a_refusal_as_failed_and_say_what_it_was():
    async with await _http_server(lambda body: _respond("429 Too Many Requests", b"full")) as server:
        tally = Tally(_posts(1))
        async with http_clients(tally, 1, "127.0.0.1", _port(server)):
            await _until(lambda: tally.failed > 3)
    assert len(tally.latencies) == 0
    assert tally.first_failure == "HTTP/1.1 429: full"


async def test_grpc_clients_read_the_status():
    async def infer(request, context):
        if request == b"bad":
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return b"=" + request

    service, _, method = INFER_METHOD[1:].partition("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(infer)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    tally = Tally([b"good", b"bad"])
    tally.measuring = True
    async with grpc_clients(tally, 2, "127.0.0.1", port):
        await _until(lambda: tally.failed > 2 and len(tally.latencies) > 2)
    await server.stop(None)
    assert tally.first_failure == "RESOURCE_EXHAUSTED: full"
    assert tally.kept[0] == (0, b"", b"=good")


@pytest.mark.parametrize("wire", ["oip-json", "oip-binary"])
def test_rest_requests_hold_the_window(wire):
    windows = split_windows()
    head, _, body = WIRES[wire].build("m", windows, 5).partition(b"\r\n\r\n")
    found = head.partition(b"Inference-Header-Content-Length: ")[2].partition(b"\r\n")[0] or None
    tensors = decode_request(body, found).tensors
    np.testing.assert_array_equal(tensors["history"][0], windows.history[5].astype(np.float32))
    np.testing.assert_array_equal(tensors["timestamps"][0], windows.stamps[5])


def test_json_request_holds_the_window():
    windows = split_windows()
    series = orjson.loads(WIRES["json"].build("m", windows, 5).partition(b"\r\n\r\n")[2])["series"][0]
    assert series["timestamps"][0] == str(np.datetime64(int(windows.stamps[5, 0]), "s"))
    np.testing.assert_array_equal(np.array(list(series["values"].values())).T, windows.history[5])


def test_grpc_request_holds_the_window():
    windows = split_windows()
    request = ModelInferRequest.FromString(WIRES["grpc"].build("m", windows, 5))
    history = np.frombuffer(request.raw_input_contents[0], dtype=np.float32)
    np.testing.assert_array_equal(history, windows.history[5].astype(np.float32).ravel())


@pytest.mark.slow
def test_a_tiny_run_measures_every_wire_with_right_answers(tmp_path):
    numbers = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "benchmarks.serving", "--quick", "--seconds", "0.2", "--clients", "4"]
    run = subprocess.run(
        [*command, "--models", "card-etth1", "--json", str(numbers)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr  # 1: a claim about speed may not hold on a busy machine
    cells = json.loads(numbers.read_bytes())["cells"]
    assert len(cells) == 2 * len(WIRES)
    for cell in cells:
        assert cell["median"]["failed"] == cell["median"]["wrong"] == 0
        assert cell["median"]["requests_per_s"] > 0
        assert 0 < cell["median"]["p50_ms"] <= cell["median"]["p99_ms"]


@pytest.mark.slow
def test_served_forecasts_have_the_official_programs_errors():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(" yes") == 10
