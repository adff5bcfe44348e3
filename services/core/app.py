"""How a family's service becomes a BentoML service: `pressroom_service` decorates the class BentoML knows.

BentoML supervises the worker processes, loads the service and runs its life-cycle hooks; our front answers our routes
ahead of BentoML's middleware, whose own routes stay reachable behind it.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import bentoml
from _bentoml_sdk.service import Service

from services.core import supervisor
from services.core.model import Family
from services.core.preflight import check_files
from services.core.settings import Settings, load_settings

C = TypeVar("C", bound="ServiceBase")


class ServiceBase:
    """Life-cycle hooks every Pressroom service shares; BentoML calls them in the worker's event loop."""

    bento_service: PressroomService

    @bentoml.on_startup
    async def start_worker(self) -> None:
        await self.bento_service.worker.start()

    @bentoml.on_shutdown
    async def stop_worker(self) -> None:
        await self.bento_service.worker.stop()


class PressroomService(Service[Any]):
    """A BentoML service whose ASGI application is our front."""

    families: Sequence[Family]
    settings: Settings

    @property
    def worker(self) -> Any:
        """The serving state of this process, created on first use: only worker processes need one."""
        found = self.__dict__.get("_worker")
        if found is None:
            from services.core.worker import Worker

            found = self.__dict__["_worker"] = Worker(self.families, self.settings)
        return found

    def on_load_bento(self, bento: Any) -> None:
        """A bento serves the artifact versions it was built with, unless the settings name others."""
        super().on_load_bento(bento)
        if not self.settings.models:
            built_with = ",".join(str(model.tag) for model in bento.info.all_models)
            self.settings = self.settings.model_copy(update={"models": built_with})

    def to_asgi(self, is_main: bool = True) -> Any:
        from services.core.http.front import Front
        from services.core.http.protocol import bound_heads

        bound_heads()
        logging.getLogger("pressroom").setLevel(logging.INFO)
        logging.getLogger("uvicorn.access").disabled = True  # costs more than the request it describes
        worker, behind = self.worker, super().to_asgi(is_main=is_main)
        return Front(worker.routes, worker.serving, behind)


def pressroom_service(*families: Family) -> Callable[[type[C]], Any]:
    """Class decorator: serve these families. Settings come from the environment (`services.core.settings`)."""

    def decorate(inner: type[C]) -> Any:
        settings = load_settings().values
        check_files(settings)
        service = bentoml.service(
            service_class=PressroomService,
            workers=settings.workers,
            traffic={"timeout": settings.request_timeout_ms / 1000 + 30},
            logging={"access": {"enabled": False}},
            metrics={"enabled": False},  # BentoML's make series of every unknown path, for ever; ours are bounded
            http={"host": settings.host, "port": settings.port},
            ssl=_tls(settings),
        )(inner)
        service.families = families
        service.settings = settings
        return service

    supervisor.prepare()
    return decorate


def _tls(settings: Settings) -> dict[str, Any]:
    """BentoML's TLS configuration; client certificates are required when their authorities are named."""
    if not settings.tls_cert:
        return {"enabled": False}
    tls: dict[str, Any] = {"enabled": True, "certfile": settings.tls_cert, "keyfile": settings.tls_key}
    if settings.tls_client_ca:
        tls |= {"ca_certs": settings.tls_client_ca, "cert_reqs": int(ssl.CERT_REQUIRED)}
    return tls
