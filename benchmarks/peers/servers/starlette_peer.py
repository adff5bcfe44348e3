"""Starlette on uvicorn with a small batcher: what a row costs without any platform. POST /inference, bytes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from session import HOST, Model, description, port
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Batcher:
    """While a batch runs in its thread, rows gather; when it ends, they leave together."""

    def __init__(self, model: Model, largest: int) -> None:
        self._model, self._largest = model, largest
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[bytes, asyncio.Future[bytes]]] = []
        self._running: asyncio.Task[None] | None = None

    async def infer(self, row: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append((row, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            answers = await loop.run_in_executor(self._thread, self._model.run_rows, [row for row, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        self._running = None


batcher = Batcher(Model(), description()["max_batch_rows"])


async def infer(request: Request) -> Response:
    return Response(await batcher.infer(await request.body()), media_type="application/octet-stream")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/inference", infer, methods=["POST"])])
    uvicorn.run(app, host=HOST, port=port(), log_level="warning", access_log=False, loop="uvloop", http="httptools")
