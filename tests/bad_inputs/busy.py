"""A server that runs rows one by one, a way to keep its model busy, and what it holds meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import etth1
import httpx
import numpy as np
import psutil
from live_server import LiveServer, eventually
from raw_http import RawConnection

from .case import INFER_CARD, LENGTH, infer

ENVIRONMENT = {
    "PRESSROOM_MAX_BATCH_ROWS": "1",
    "PRESSROOM_MAX_REQUEST_ROWS": "3000",
    "PRESSROOM_MAX_QUEUE_ROWS": "3000",
}


def rows_request(rows: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of so many equal rows in raw bytes."""
    raw = np.repeat(etth1.history(), rows, axis=0).tobytes()
    size = {"binary_data_size": len(raw)}
    entry = {"name": "history", "datatype": "FP32", "shape": [rows, 96, 7], "parameters": size}
    header = json.dumps(infer(entry)).encode()
    return header + raw, {LENGTH: str(len(header))}


@contextmanager
def occupied(server: LiveServer, rows: int) -> Iterator[None]:
    """The server's CARD model busy with so many rows; at the end their caller hangs up."""
    body, headers = rows_request(rows)
    with RawConnection(server) as connection:
        connection.post(INFER_CARD, body, **headers)
        eventually(lambda: queued(server) > rows / 2, "the model is busy")
        yield
    eventually(lambda: queued(server) == 0, "the rows of a caller who went away leave the queue")


def queued(server: LiveServer) -> float:
    return server.metric("pressroom_queue_rows")


def memory(server: LiveServer) -> int:
    """Resident bytes of the server's worker processes."""
    return sum(psutil.Process(pid).memory_info().rss for pid in server.children())


def nothing_left(server: LiveServer) -> None:
    """No request is in flight (but for the one that asks), none is queued."""
    eventually(lambda: server.metric("pressroom_in_flight_requests", protocol="grpc") == 0, "no call is in flight")
    eventually(lambda: server.metric("pressroom_in_flight_requests", protocol="http") == 1, "no request is in flight")
    eventually(lambda: queued(server) == 0, "the queues are empty")


async def at_once(server: LiveServer, bodies: list[bytes], path: str = etth1.FORECAST) -> list[httpx.Response]:
    """The answers to requests sent together, in their order."""
    limits = httpx.Limits(max_connections=len(bodies))
    async with httpx.AsyncClient(base_url=server.url, timeout=60, limits=limits) as client:
        return await asyncio.gather(*(client.post(path, content=body) for body in bodies))
