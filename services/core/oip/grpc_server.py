"""The gRPC server of a worker: the inference service, grpc.health.v1 and reflection in the worker's own event loop."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from time import perf_counter

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from services.core.http2.connection import Limits
from services.core.http2.server import Http2Server
from services.core.oip.grpc_guard import GuardedServer
from services.core.oip.grpc_service import InferenceService, UnknownCalls
from services.core.oip.messages import POOL, SERVICE
from services.core.serving import Serving

QUIET_SECONDS, QUIET_WAIT_SECONDS = 0.2, 3.0


class GrpcServer:
    """Starts, reports health, drains."""

    def __init__(self, serving: Serving) -> None:
        self._settings = serving.settings
        self._service = InferenceService(serving)
        self._health = health.aio.HealthServicer()
        # twice our own limit, so that moderately oversized messages are refused in our own words
        self._max_message = 2 * self._settings.body_limit_bytes
        self._shared = self._settings.workers > 1  # workers share the port; two servers must not
        self._server: grpc.aio.Server | Http2Server | None = None

    async def start(self) -> None:
        """Listen. Raises RuntimeError naming the port if it is taken."""
        server = self._grpcio() if self._settings.grpc_transport == "grpcio" else self._http2()
        server.add_generic_rpc_handlers((self._service.handlers(),))
        if isinstance(server, Http2Server):
            server.add_express(f"/{SERVICE}/ModelInfer", self._service.express)
        guarded = GuardedServer(server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, guarded)
        services = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.aio.ReflectionServicer(services, pool=POOL), guarded
        )
        server.add_generic_rpc_handlers((UnknownCalls(),))
        try:
            self._listen(server)
        except (OSError, RuntimeError):
            raise RuntimeError(
                f"gRPC port {self._settings.grpc_port} on {self._settings.host} is not free; "
                "choose another with --grpc-port (PRESSROOM_GRPC_PORT), or 0 for none"
            ) from None
        await self.set_serving(False)
        await server.start()
        self._server = server

    async def set_serving(self, serving: bool) -> None:
        """What grpc.health.v1 answers, for the server and for the inference service."""
        states = health_pb2.HealthCheckResponse
        state = states.SERVING if serving else states.NOT_SERVING
        for service in ("", SERVICE):
            await self._health.set(service, state)

    async def stop(self) -> None:
        """Refuse new calls, let running ones finish within the drain time.

        gRPC answers CANCELLED, which nobody retries, to a call that reached it and not yet us when it is stopped. So
        the service refuses first (UNAVAILABLE), and the transport is stopped once no call has come for a moment.
        """
        if self._server is not None:
            end = perf_counter() + self._settings.drain_seconds
            await self._quiet(min(QUIET_WAIT_SECONDS, self._settings.drain_seconds))
            await self._server.stop(max(0.0, end - perf_counter()))

    async def _quiet(self, longest: float) -> None:
        """Wait until no call has come for QUIET_SECONDS, at most `longest` seconds."""
        until = perf_counter() + longest
        while True:
            left = min(self._service.last_call + QUIET_SECONDS, until) - perf_counter()
            if left <= 0:
                return
            await asyncio.sleep(left)

    def _http2(self) -> Http2Server:
        settings = self._settings
        return Http2Server(
            Limits(
                max_message=self._max_message,
                max_streams=settings.max_in_flight,  # of one connection; calls wait, none is lost
                upload_seconds=settings.request_timeout_ms / 1000,
            )
        )

    def _grpcio(self) -> grpc.aio.Server:
        return grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._max_message),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", self._settings.max_in_flight),
                ("grpc.so_reuseport", int(self._shared)),
            ]
        )

    def _listen(self, server: grpc.aio.Server | Http2Server) -> None:
        host, port = self._settings.host, self._settings.grpc_port
        if isinstance(server, Http2Server):
            server.bind(host, port, shared=self._shared, tls=self._tls() if self._settings.tls_cert else None)
            return
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._settings.tls_cert:
            server.add_secure_port(address, self._credentials())
        else:
            server.add_insecure_port(address)

    def _tls(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _credentials(self) -> grpc.ServerCredentials:
        settings = self._settings
        chain, key = Path(settings.tls_cert).read_bytes(), Path(settings.tls_key).read_bytes()
        authorities = Path(settings.tls_client_ca).read_bytes() if settings.tls_client_ca else None
        return grpc.ssl_server_credentials([(key, chain)], authorities, require_client_auth=authorities is not None)
