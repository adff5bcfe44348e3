"""The models this process serves: found by name and version, loaded from the store, ready or refused with a reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from export.artifact import ArtifactError, open_artifact, stored_versions
from services.core.errors import ApiError
from services.core.model import Family, ServedModel
from services.core.settings import Settings

log = logging.getLogger("pressroom.repository")

INFER_ROUTE = "/v2/models/{name}/infer"  # what metrics call the protocol's inference, over REST and gRPC


class Repository:
    """Loaded models by name and version; versions are kept oldest first, the last one is the default."""

    def __init__(self, families: Sequence[Family], settings: Settings) -> None:
        self.families = {family.name: family for family in families}
        self._settings = settings
        self._models: dict[str, dict[str, ServedModel]] = {}
        self.refused: dict[str, str] = {}  # tag -> why it is not served
        self.loaded = False
        self.draining = False

    @property
    def ready(self) -> bool:
        """Everything that was asked for is loaded, verified and warm, and there is something to serve."""
        return self.loaded and not self.draining and not self.refused and bool(self._models)

    def why_not_ready(self) -> str:
        """One sentence for the operator and the probe."""
        if self.draining:
            return "the server is draining"
        if not self.loaded:
            return "models are loading"
        if self.refused:
            return "; ".join(self.refused.values())
        return "the model store holds no artifact to serve; press one with `pressroom export`"

    async def load_all(self) -> None:
        """Load what the settings name. A refused artifact is recorded and does not stop the others."""
        for name, version in self._wanted():
            tag = f"{name}:{version}" if version else name
            try:
                await self._load(name, version)
            except ArtifactError as fault:
                self.refused[tag] = fault.message
                log.error("%s is not served: %s (%s)", tag, fault.message, fault.hint)
            except Exception:
                self.refused[tag] = f"{tag} failed to load; the server's log says why"
                log.exception("%s is not served", tag)
        self.loaded = True

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """The model, in its newest served version unless one is named. Raises ApiError naming what is served."""
        versions = self._models.get(name)
        if versions is None:
            raise self._unknown(name)
        if version is None or version == "":
            return next(reversed(versions.values()))
        if version not in versions:
            raise ApiError(
                "version_not_found",
                f"model {name!r} is not served in version {version!r}",
                field="version",
                hint=f"served: {', '.join(versions)}",
            )
        return versions[version]

    def only(self, family: str) -> ServedModel:
        """The one served model of a family, for requests that name none."""
        names = [n for n, versions in self._models.items() if _family(versions) == family]
        if len(names) != 1:
            raise ApiError(
                "invalid_request",
                "the request names no model" if names else "no model of this kind is served",
                field="model",
                hint=f"name one of: {', '.join(names)}" if names else "see GET /v1/models",
            )
        return self.find(names[0])

    def models(self) -> list[ServedModel]:
        """All served models, by name, newest version first."""
        return [m for _, versions in sorted(self._models.items()) for m in reversed(versions.values())]

    def versions(self, name: str) -> list[str]:
        return list(self._models.get(name, {}))

    async def close(self) -> None:
        """Finish the accepted work of every model."""
        await asyncio.gather(*(model.close() for model in self.models()))

    def _wanted(self) -> list[tuple[str, str | None]]:
        if entries := self._settings.model_list():
            return [(name, version or None) for name, _, version in (e.partition(":") for e in entries)]
        return [(name, None) for family in self.families for name in stored_versions(family)]

    async def _load(self, name: str, version: str | None) -> None:
        artifact = await asyncio.to_thread(open_artifact, name, version)
        family = self.families.get(artifact.manifest.family)
        if family is None:
            served = ", ".join(self.families)
            raise ArtifactError(
                f"{artifact.tag} is of family {artifact.manifest.family!r}, this service serves {served}",
                "start the service of that family, or the gateway",
            )
        model = await asyncio.to_thread(family.load, artifact, self._settings)
        await model.warm_up()
        model.announce([family.route, INFER_ROUTE])
        self._models.setdefault(name, {})[artifact.manifest.version] = model
        log.info("serving %s (%s)", artifact.tag, artifact.digest)

    def _unknown(self, name: str) -> ApiError:
        if not self.loaded:
            return ApiError("model_not_ready", "models are loading", hint="wait for GET /readyz to answer 200")
        for tag, reason in self.refused.items():
            if tag.partition(":")[0] == name:
                return ApiError("model_not_ready", f"model {name!r} is not served: {reason}", field="model")
        known = ", ".join(sorted(self._models)) or "none"
        return ApiError("model_not_found", f"no model {name!r} is served", field="model", hint=f"served: {known}")


def _family(versions: dict[str, ServedModel]) -> str:
    return next(iter(versions.values())).artifact.manifest.family
