"""The gRPC server on this transport: listens, gives calls their handlers, drains."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import grpc

from services.core.http2.connection import Connection, Limits
from services.core.http2.headers import MAX_METADATA_BYTES
from services.core.http2.rpc import Express, Rpc

BACKLOG = 2048


class Http2Server:
    """What `grpc.aio.server` offers of what we need, by the same names where there are any."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._handlers: list[Any] = []
        self._express: dict[str, Express] = {}
        self._sockets: list[socket.socket] = []
        self._listening: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._tls: ssl.SSLContext | None = None

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Calls are handled by the first that knows them."""
        self._handlers += handlers

    def add_express(self, method: str, express: Express) -> None:
        """Offer the messages of a call of one message (`/package.Service/Method`) to be answered without a task."""
        self._express[method] = express

    def bind(self, host: str, port: int, *, shared: bool, tls: ssl.SSLContext | None) -> int:
        """Take the port, or any free one for 0, and return it. Raises OSError if it is not free.

        shared  other processes bind it, too; the kernel spreads connections over them
        tls     None: plain
        """
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._tls = tls
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in {(family, address) for family, *_, address in found}:
            both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
            listening = socket.create_server(
                address[:2], family=family, backlog=BACKLOG, reuse_port=shared, dualstack_ipv6=both
            )
            self._sockets.append(listening)
        return int(self._sockets[-1].getsockname()[1])

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            self._listening.append(await loop.create_server(self._connect, sock=listening, ssl=self._tls))

    async def stop(self, grace: float) -> None:
        """Listen no more, take no new call, let running ones finish for at most `grace` seconds."""
        for listening in self._listening:
            listening.close()
        for connection in list(self._connections):
            connection.drain()
        if self._connections:
            await asyncio.wait([connection.closed for connection in self._connections], timeout=grace)
        for connection in list(self._connections):
            connection.abandon()

    def _connect(self) -> Connection:
        return Connection(self._begin, self._limits, self._connections)

    def _begin(self, rpc: Rpc) -> None:
        if rpc.head.size > MAX_METADATA_BYTES:
            rpc.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, f"no more than {MAX_METADATA_BYTES} bytes of metadata")
            return
        for handlers in self._handlers:
            handler = handlers.service(rpc.head)
            if handler is not None:
                rpc.begin(handler, self._express.get(rpc.head.method))
                return
        rpc.refuse(grpc.StatusCode.UNIMPLEMENTED, "no such call")
