"""SIGTERM under load: what was accepted is answered, what comes later is refused at once, and the exit status is 0."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import etth1
from asking import rpc_output, stub
from callers import Callers, until
from live_server import LiveServer, StartServer, eventually
from samples import good_samples
from tiny_server import message, running_tiny

REFUSED_WITHIN_SECONDS = 1.0
CALLERS = 32


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def time_until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    eventually(condition, "new connections are refused", 10)
    return time.monotonic() - began


def test_every_accepted_request_is_answered_and_new_connections_are_refused(tiny_home: Path, tmp_path: Path) -> None:
    """Eight requests a protocol are inside and cannot finish when the signal comes."""
    with running_tiny(tiny_home, tmp_path, max_delay_ms="0") as tiny, ThreadPoolExecutor(8) as pool:
        with tiny.held(), stub(tiny.server) as calls:
            over_http = [pool.submit(tiny.ask, 100.0 + i) for i in range(8)]
            over_grpc = [calls.ModelInfer.future(message(200.0 + i), timeout=60) for i in range(8)]
            eventually(lambda: sum(map(len, tiny.runs())) - 1 + tiny.queued() == 16, "sixteen are inside")
            tiny.server.terminate()
            http_seconds = time_until(lambda: refuses(tiny.server.port))
            grpc_seconds = time_until(lambda: refuses(tiny.server.grpc_port))
            assert tiny.server.process.poll() is None  # it waits for what it accepted
            tiny.release()
            assert [a.result().json()["y"] for a in over_http] == [[3 * (100.0 + i)] for i in range(8)]
            assert [rpc_output(call.result()).item() for call in over_grpc] == [3 * (200.0 + i) for i in range(8)]
        assert tiny.server.wait() == 0
    print(f"\nnew connections refused after {http_seconds:.2f} s (HTTP), {grpc_seconds:.2f} s more (gRPC)")
    assert http_seconds + grpc_seconds < REFUSED_WITHIN_SECONDS


async def test_under_load_every_answer_the_server_gave_arrived(start_server: StartServer) -> None:
    """The server's own access log and the callers count the same good answers: none was lost on the way."""
    server = start_server("--models", etth1.CARD, "--set", "access_log=all")
    callers = Callers(server, [sample for sample in good_samples() if sample.architecture == "card"])
    callers.stop_at = frozenset({"shutting_down", "model_not_ready", "cancelled"})
    async with callers.calling(CALLERS) as tally:
        await until(lambda: tally.answered > 500, "the load is on")
        server.terminate()
        assert await asyncio.to_thread(server.wait) == 0
    assert tally.wrong == []
    given = Counter(entry["protocol"] for entry in _access_log(server) if entry["code"] == "ok")
    assert given == {protocol: tally.codes[protocol, "ok"] for protocol in ("http", "grpc")}


def _access_log(server: LiveServer) -> list[dict[str, str]]:
    lines = (line for line in server.log.read_text().splitlines() if line.startswith("{"))
    entries = [json.loads(line) for line in lines]
    return [entry for entry in entries if entry["route"].endswith(("infer", "forecast"))]
