"""What a gRPC transport costs by itself: a server that answers every call at once, with a forecast's size of bytes.

python -m benchmarks.echo http2|grpcio     serves until it is ended; prints its port first
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import uvloop

from benchmarks.server import HOST, ROOT
from pressroom.bench_grpc import INFER_METHOD

TRANSPORTS = {"http2": "ours, services/core/http2", "grpcio": "grpcio's asyncio server"}
ANSWER = bytes(3000)  # 96 hours of 7 columns, and what goes with them
LIMIT = 2**20  # bytes of a message


@contextmanager
def echo_server(transport: str) -> Iterator[tuple[int, int]]:
    """Port and process id of a server of its own for the length of the block."""
    command = [sys.executable, "-m", "benchmarks.echo", transport]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


async def _answer(raw: bytes, context: Any) -> bytes:
    return ANSWER


def _handlers() -> Any:
    _, service, method = INFER_METHOD.split("/")
    return grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(_answer)})


async def _serve(transport: str) -> None:
    if transport == "grpcio":
        server: Any = grpc.aio.server()
        port = server.add_insecure_port(f"{HOST}:0")
    else:
        from services.core.http2.connection import Limits
        from services.core.http2.server import Http2Server

        server = Http2Server(Limits(max_message=LIMIT, max_streams=100, upload_seconds=30.0))
        port = server.bind(HOST, 0, shared=False, tls=None)
    server.add_generic_rpc_handlers((_handlers(),))
    await server.start()
    gc.collect()
    gc.freeze()  # as the product's workers do
    gc.set_threshold(100_000, 50, 50)
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
