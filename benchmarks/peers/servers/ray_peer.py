"""Ray Serve: one replica with `serve.batch`, a row's bytes in and out. POST /inference."""

from __future__ import annotations

import signal

import ray
from ray import serve
from session import HOST, Model, description, port
from starlette.requests import Request
from starlette.responses import Response

_TOLD = description()
_IN_FLIGHT = 1024  # requests the one replica is given at once


@serve.deployment(num_replicas=1, max_ongoing_requests=_IN_FLIGHT)
class Inference:
    """Ray gathers calls of a `serve.batch` method."""

    def __init__(self) -> None:
        self._model = Model()

    @serve.batch(max_batch_size=_TOLD["max_batch_rows"], batch_wait_timeout_s=_TOLD["max_delay_ms"] / 1e3)
    async def infer(self, rows: list[bytes]) -> list[bytes]:
        return self._model.run_rows(rows)

    async def __call__(self, request: Request) -> Response:
        return Response(await self.infer(await request.body()), media_type="application/octet-stream")


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": HOST, "port": port()}, logging_config={"enable_access_log": False})
    serve.run(Inference.bind(), route_prefix="/inference")
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    ray.shutdown()
