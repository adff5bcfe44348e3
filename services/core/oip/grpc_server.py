"""The gRPC server of a worker: the inference service, grpc.health.v1 and reflection in the worker's own event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

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
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises RuntimeError naming the port if it is taken."""
        settings = self._settings
        server = grpc.aio.server(
            options=[
                # twice our own limit, so that moderately oversized messages are refused in our own words
                ("grpc.max_receive_message_length", 2 * settings.body_limit_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", settings.max_in_flight),  # of one connection; calls wait, none is lost
                ("grpc.so_reuseport", int(settings.workers > 1)),  # workers share the port; two servers must not
            ]
        )
        server.add_generic_rpc_handlers((self._service.handlers(),))
        guarded = GuardedServer(server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, guarded)
        services = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.aio.ReflectionServicer(services, pool=POOL), guarded
        )
        server.add_generic_rpc_handlers((UnknownCalls(),))
        self._listen(server)
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

    def _listen(self, server: grpc.aio.Server) -> None:
        host, port = self._settings.host, self._settings.grpc_port
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._settings.tls_cert:
                server.add_secure_port(address, self._credentials())
            else:
                server.add_insecure_port(address)
        except RuntimeError:
            raise RuntimeError(
                f"gRPC port {port} on {host} is not free; "
                "choose another with --grpc-port (PRESSROOM_GRPC_PORT), or 0 for none"
            ) from None

    def _credentials(self) -> grpc.ServerCredentials:
        settings = self._settings
        chain, key = Path(settings.tls_cert).read_bytes(), Path(settings.tls_key).read_bytes()
        authorities = Path(settings.tls_client_ca).read_bytes() if settings.tls_client_ca else None
        return grpc.ssl_server_credentials([(key, chain)], authorities, require_client_auth=authorities is not None)
