"""A worker's front ends in this process: HTTP and gRPC on free ports, one model that doubles at the test's pace.

`rides` counts the requests that were answered without a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import uvicorn
from live_server import until
from uvicorn.protocols.http import httptools_impl
from uvicorn.server import ServerState

from export.artifact import Signature, TensorSpec
from services.core.call import Call
from services.core.gate import Gate
from services.core.http.front import Front as HttpFront
from services.core.http.protocol import BoundedHeads
from services.core.http.routes import Routes
from services.core.http.turn import Turn
from services.core.http2.connection import Limits
from services.core.http2.server import Http2Server
from services.core.journal import Journal
from services.core.model import Json, TensorModel, batch_policy
from services.core.oip.direct import Direct
from services.core.oip.grpc_service import InferenceService
from services.core.oip.messages import SERVICE, ModelInferRequest, ModelInferResponse
from services.core.oip.rest import OipRoutes
from services.core.repository import Repository
from services.core.serving import Serving
from services.core.settings import Settings
from services.core.shadow import Shadow
from services.core.tensors import Tensors

UNLUCKY = 13.0
METHOD = f"/{SERVICE}/ModelInfer"


class Doubling(TensorModel):
    """x FP32 [B, n] -> y = 2 x; fails on a row of 13s."""

    def __init__(self, settings: Settings) -> None:
        spec = [TensorSpec(name=n, dtype="FP32", shape=["batch", "n"], unit="1", meaning=n) for n in ("x", "y")]
        manifest = SimpleNamespace(
            name="doubling", version="1", family="doubling", architecture="none",
            signature=Signature(inputs=spec[:1], outputs=spec[1:]),
        )  # fmt: skip
        artifact: Any = SimpleNamespace(
            manifest=manifest, digest="sha256:" + "0" * 64, tag="doubling:1", read_json=lambda name: {}
        )
        super().__init__(artifact, self, batch_policy(settings))
        self.batches: list[list[float]] = []  # first elements of the rows of every forward pass
        self.going = threading.Event()
        self.going.set()

    def run(self, tensors: Tensors) -> Tensors:
        self.batches.append(tensors["x"][:, 0].tolist())
        assert self.going.wait(20)
        if (tensors["x"] == UNLUCKY).any():
            raise ArithmeticError("unlucky")
        return {"y": 2 * tensors["x"]}

    async def answer(self, request: Json, call: Call) -> Json:
        raise AssertionError("never called here")

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        raise AssertionError("never called here")

    async def has_begun(self, batches: int) -> None:
        """Wait until that many forward passes have begun."""
        await until(lambda: len(self.batches) >= batches, 20)


@dataclass
class Served:
    """What a test holds."""

    model: Doubling
    serving: Serving
    port: int
    grpc_port: int
    rides: list[Direct]
    http_connections: set[Any]
    callers: list[Connection] = field(default_factory=list)

    async def connect(self, **headers: str) -> Connection:
        """A connection; closed at the end."""
        caller = await Connection.to(self.port, **headers)
        self.callers.append(caller)
        return caller

    async def familiar(self, **headers: str) -> Connection:
        """A connection whose next request of one row rides."""
        caller = await self.connect(**headers)
        assert (await caller.ask(1.0)).status == 200
        return caller


@asynccontextmanager
async def served_model(patch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[Served]:
    """Serve until the block ends."""
    patch.setattr(httptools_impl, "RequestResponseCycle", Turn)
    rides: list[Direct] = []
    begin = Direct.begin
    patch.setattr(Direct, "begin", lambda ride: (rides.append(ride), begin(ride))[1])
    wanted = Settings(max_delay_ms=0, access_log="off", **settings)
    model, repository = Doubling(wanted), Repository([], wanted)
    repository._models["doubling"] = {"1": model}
    repository.loaded = True
    serving = Serving(repository, Gate(wanted), Shadow(repository), Journal(wanted), wanted)
    routes = Routes()
    OipRoutes(serving).register(routes)
    state = ServerState()
    config = uvicorn.Config(HttpFront(routes, serving, None), log_config=None, http=BoundedHeads)
    config.load()
    protocol = partial(BoundedHeads, config=config, server_state=state, app_state={})
    http = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    grpc_server = Http2Server(Limits(max_message=10**7, max_streams=100, upload_seconds=10))
    service = InferenceService(serving)
    grpc_server.add_generic_rpc_handlers((service.handlers(),))
    grpc_server.add_express(f"/{SERVICE}/ModelInfer", service.express)
    grpc_port = grpc_server.bind("127.0.0.1", 0, shared=False, tls=None)
    await grpc_server.start()
    served = Served(model, serving, http.sockets[0].getsockname()[1], grpc_port, rides, state.connections)
    try:
        yield served
    finally:
        for caller in served.callers:
            await caller.close()
        model.going.set()
        await grpc_server.stop(5)
        http.close()
        await model.close()


class Connection:
    """One keep-alive connection of a careful caller; `headers` go with every request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> None:
        self._reader, self._writer, self._headers = reader, writer, headers

    @classmethod
    async def to(cls, port: int, **headers: str) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, {name.replace("_", "-"): value for name, value in headers.items()})

    def request(self, *x: float, path: str = "/v2/models/doubling/infer", **headers: str) -> bytes:
        """A binary request of one row for each number, in one piece."""
        tensor = np.array(x, dtype=np.float32)[:, None]
        entry = {"name": "x", "datatype": "FP32", "shape": list(tensor.shape)}
        entry["parameters"] = {"binary_data_size": tensor.nbytes}
        document = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        fields = {"Content-Length": str(len(document) + tensor.nbytes)} | self._headers
        fields |= {"Inference-Header-Content-Length": str(len(document))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {path} HTTP/1.1\r\nHost: test\r\n{head}\r\n".encode() + document + tensor.tobytes()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, *x: float, **headers: str) -> HttpAnswer:
        self.send(self.request(*x, **headers))
        return await self.answer()

    async def answer(self) -> HttpAnswer:
        async with asyncio.timeout(20):
            status, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.partition(": ") for line in lines if line)
            headers = {name: value for name, _, value in pairs}
            body = await self._reader.readexactly(int(headers["content-length"]))
        return HttpAnswer(int(status.split()[1]), headers, body)

    async def ends(self) -> bool:
        async with asyncio.timeout(20):
            return await self._reader.read(1) == b""

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@dataclass(frozen=True)
class HttpAnswer:
    """A response: `document` is its JSON, or the JSON in front of its tensors."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        length = self.headers.get("inference-header-content-length")
        return json.loads(self.body if length is None else self.body[: int(length)])

    @property
    def y(self) -> list[float]:
        length = int(self.headers["inference-header-content-length"])
        found: list[float] = np.frombuffer(self.body[length:], dtype=np.float32).tolist()
        return found


def message(*x: float, width: int = 1) -> bytes:
    """A ModelInfer message of rows of `width` equal numbers."""
    tensor = np.repeat(np.array(x, dtype=np.float32)[:, None], width, axis=1)
    request = ModelInferRequest(model_name="doubling")
    request.inputs.add(name="x", datatype="FP32", shape=tensor.shape)
    request.raw_input_contents.append(tensor.tobytes())
    return bytes(request.SerializeToString())


def numbers(raw: bytes) -> list[float]:
    """What the first output of an answer holds."""
    content = ModelInferResponse.FromString(raw).raw_output_contents[0]
    found: list[float] = np.frombuffer(content, dtype=np.float32).tolist()
    return found
