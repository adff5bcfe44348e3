"""A tiny server of Pressroom's wire format, over real HTTP and real gRPC on loopback; the client is tested against it.

It forecasts by counting up from the last value and echoes tensors. Tests queue refusals, which the next calls meet
instead, and look at what arrived. Tensors pass through as bytes: nothing of the client's own codec runs here.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import grpc
import uvicorn
from pressroom_client._grpc_messages import SERVICE, methods

HORIZON = 3
LOOK_BACK = 4
DIGEST = "sha256:" + "ab" * 32
STAGES = {"queue_ms": 0.5, "preprocess_ms": 0.25, "inference_ms": 2.0, "postprocess_ms": 0.25, "total_ms": 3.0}
TENSORS = [{"name": "history", "datatype": "FP32", "shape": [-1, LOOK_BACK, -1]}]
OUTPUTS = [{"name": "forecast", "datatype": "FP32", "shape": [-1, HORIZON, -1]}]
MODEL = {
    "id": "counter",
    "object": "model",
    "created": 1_700_000_000,
    "owned_by": "pressroom",
    "version": "2",
    "versions": ["1", "2"],
    "family": "forecast",
    "architecture": "counter",
    "digest": DIGEST,
    "certificate": {"verdict": "ok", "max_abs": 1e-6, "tolerance": {"atol": 1e-5, "rtol": 0.0}, "cases": 5},
    "signature": {"inputs": TENSORS, "outputs": OUTPUTS},
    "settings": {"look_back": LOOK_BACK, "horizon": HORIZON, "frequency": "h", "columns": ["a", "b"]},
}


class RefusalError(Exception):
    """An error of the server, on either transport; `raw` replaces the whole HTTP answer."""

    def __init__(
        self, code: str, http: int, grpc_status: str, *, headers: dict[str, str] | None = None, **envelope: Any
    ) -> None:
        super().__init__(code)
        self.http = http
        self.grpc_status = grpc_status
        self.headers = headers or {}
        self.envelope = {"code": code, "message": f"about {code}", "field": None, "hint": None, **envelope}
        self.raw: bytes | None = None

    @classmethod
    def bare(cls, http: int, body: bytes = b"", headers: dict[str, str] | None = None) -> RefusalError:
        """An answer that is not Pressroom's: status and body only."""
        refusal = cls("", http, "UNKNOWN", headers=headers)
        refusal.raw = body
        return refusal


@dataclass(frozen=True)
class Seen:
    """One call as it arrived."""

    name: str  # "POST /v1/forecast" or "ModelInfer"
    headers: dict[str, str]
    body: Any
    seconds_left: float | None = None  # gRPC's deadline


@dataclass
class Behaviour:
    """What the next calls meet, and what has been seen."""

    refusals: deque[RefusalError] = field(default_factory=deque)
    seen: list[Seen] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    stall: bool = False  # accept, then say nothing until released
    trickle: bool = False  # answer a byte at a time
    sent: int = 0  # pieces of streams

    def reset(self) -> None:
        self.release.set()
        self.__init__()  # type: ignore[misc]

    def meet(self, seen: Seen) -> None:
        self.seen.append(seen)
        self.arrived.set()
        if self.refusals:
            raise self.refusals.popleft()


def forecast(payload: dict[str, Any], request_id: str) -> dict[str, Any]:
    """The native answer: every column counts up from its last value."""
    if payload.get("model", "counter") != "counter":
        hint = "GET /v1/models lists what is served"
        raise RefusalError("model_not_found", 404, "NOT_FOUND", field="model", hint=hint)
    steps = payload.get("horizon", HORIZON)
    return {
        "model": "counter",
        "version": payload.get("version", "2"),
        "digest": DIGEST,
        "request_id": request_id,
        "timings": STAGES,
        "batch_rows": len(payload["series"]),
        "series": [
            _one(series, steps) | _bounds(series, steps, payload.get("levels", ())) for series in payload["series"]
        ],
    }


def _one(series: dict[str, Any], steps: int) -> dict[str, Any]:
    columns = series["values"]
    received = len(next(iter(columns.values())))
    if received < LOOK_BACK:
        message = f"got {received} time steps, expected at least {LOOK_BACK}"
        raise RefusalError("history_too_short", 422, "INVALID_ARGUMENT", message=message, field="series[0].values")
    notes = [{"code": "history_truncated", "message": f"used the last {LOOK_BACK} of {received} time steps"}]
    return {
        "id": series.get("id"),
        "timestamps": _continued(series.get("timestamps"), steps),
        # A server may order its columns as it likes.
        "values": {name: [data[-1] + step + 1 for step in range(steps)] for name, data in reversed(columns.items())},
        "history": {"received": received, "used": LOOK_BACK},
        "warnings": notes if received > LOOK_BACK else [],
    }


def _bounds(series: dict[str, Any], steps: int, levels: list[int]) -> dict[str, Any]:
    """Intervals of a tenth of their level to either side."""
    if not levels:
        return {}
    middle = _one(series, steps)["values"]
    sides = {"lower": -1, "upper": 1}
    return {
        "intervals": [
            {"level": level, "method": "split"}
            | {
                side: {name: [v + sign * level / 10 for v in data] for name, data in middle.items()}
                for side, sign in sides.items()
            }
            for level in sorted(levels)
        ]
    }


def _continued(stamps: list[Any] | None, steps: int) -> list[Any] | None:
    if stamps is None:
        return None
    if isinstance(stamps[-1], int):
        return [stamps[-1] + (step + 1) * (stamps[-1] - stamps[-2]) for step in range(steps)]
    last, before = (datetime.fromisoformat(stamp) for stamp in (stamps[-1], stamps[-2]))
    return [(last + (step + 1) * (last - before)).isoformat() for step in range(steps)]


@contextmanager
def http_server(behaviour: Behaviour) -> Iterator[str]:
    """The address of a running HTTP server."""
    from tiny_http import app

    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = uvicorn.Config(
            app(behaviour), lifespan="off", ws="none", log_level="error", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        behaviour.reset()
        server.should_exit = True
        thread.join(timeout=10)


@contextmanager
def grpc_server(behaviour: Behaviour) -> Iterator[str]:
    """The address of a running gRPC server."""
    from tiny_grpc import Calls

    calls = Calls(behaviour)
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            calls.handler(name),
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
        for name, method in methods().items()
        if hasattr(calls, name)
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}"
    behaviour.reset()
    server.stop(0).wait()
