"""One worker process: loads its models behind a live server, serves them over HTTP and gRPC, drains.

start   listen on gRPC (NOT_SERVING), load and warm up in the background; /livez answers at once, /readyz when done;
        a worker that joins others who serve already loads before it listens
stop    at the first signal readiness turns off, gRPC and HTTP refuse what is new and finish what is running; then the
        batchers empty their queues
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

import psutil

from services.core.collector import calm
from services.core.companions import Companions
from services.core.control import POLL_SECONDS
from services.core.gate import Gate
from services.core.http.routes import Routes
from services.core.http.routing import build_routes
from services.core.journal import Journal
from services.core.metrics import MEMORY, write_all
from services.core.model import Family
from services.core.oip.grpc_server import GrpcServer
from services.core.repository import Repository
from services.core.serving import Serving
from services.core.settings import Settings
from services.core.shadow import Shadow

log = logging.getLogger("pressroom.worker")


class Worker:
    """The serving state of this process."""

    def __init__(self, families: Sequence[Family], settings: Settings) -> None:
        self.repository = Repository(families, settings)
        self.serving = Serving(self.repository, Gate(settings), Shadow(self.repository), Journal(settings), settings)
        self.routes: Routes = build_routes(self.serving)
        self._grpc = GrpcServer(self.serving) if settings.grpc_port else None
        self._companions = Companions(settings.workers)
        self._life: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises RuntimeError if the gRPC port is taken; models that cannot be loaded leave the server not ready."""
        if self._companions.serving:
            await self.repository.load_all()
        if self._grpc is not None:
            await self._grpc.start()
        self._drain_on_signal()
        self._life = asyncio.create_task(self._live())

    async def stop(self) -> None:
        """Finish what was accepted."""
        if self._life is not None:
            self._life.cancel()
        await self._drained()
        await self.repository.close()
        write_all()
        self.serving.journal.close()

    def _drain_on_signal(self) -> None:
        """Begin to drain when the process is told to stop, not only when the HTTP server has finished."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)

            def drain(number: int, frame: FrameType | None, before: Any = before) -> None:
                loop.call_soon_threadsafe(self._drained)
                if callable(before):
                    before(number, frame)

            signal.signal(number, drain)

    def _drained(self) -> asyncio.Task[None]:
        """The one task that drains; started by whoever asks first."""
        self.repository.draining = True
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        return self._draining

    async def _drain(self) -> None:
        if self._grpc is not None:
            await self._grpc.set_serving(False)
            await self._grpc.stop()

    async def _live(self) -> None:
        await self._load()
        while True:
            MEMORY.set(psutil.Process().memory_info().rss)
            write_all()
            await asyncio.sleep(POLL_SECONDS)
            await self.repository.follow_commands()

    async def _load(self) -> None:
        if not self.repository.loaded:
            await self.repository.load_all()
        calm()
        if self._grpc is not None:
            await self._grpc.set_serving(self.repository.ready)
        if self.repository.ready:
            self._companions.announce()
            log.info("ready: %s", ", ".join(m.artifact.tag for m in self.repository.models()))
        else:
            log.error("not ready: %s", self.repository.why_not_ready())
