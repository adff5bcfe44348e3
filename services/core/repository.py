"""The models this process serves: loaded from the store, found by name and version, exchanged while running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from export.artifact import ArtifactError, attaches, open_artifact, stored_versions
from services.core.call import Call
from services.core.collector import collect_all
from services.core.control import Command, CommandLog
from services.core.errors import ApiError
from services.core.metrics import MODELS_REFUSED
from services.core.model import Family, ServedModel
from services.core.settings import Settings
from services.core.traffic import Traffic, newest_first, parse_shares
from services.core.wanted import ALL, Wanted, parse_wanted

log = logging.getLogger("pressroom.repository")

INFER_ROUTE = "/v2/models/{name}/infer"  # what metrics call the protocol's inference, over REST and gRPC


class Repository:
    """Loaded models by name and version. An exchange is atomic: requests meet the old version or the new one."""

    def __init__(self, families: Sequence[Family], settings: Settings) -> None:
        self.families = {family.name: family for family in families}
        self.refused: dict[str, str] = {}  # tag -> why it is not served
        self.loaded = False
        self.draining = False
        self._settings = settings
        self._models: dict[str, dict[str, ServedModel]] = {}
        self._traffic = Traffic(parse_shares(settings.canary, "canary"), parse_shares(settings.shadow, "shadow"))
        self._commands = CommandLog()
        self._changing = asyncio.Lock()

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

    def find(self, name: str, version: str | None = None, call: Call | None = None) -> ServedModel:
        """The model that answers: the named version, the pinned one, or the one the traffic shares give.

        Raises ApiError naming what is served.
        """
        versions = self._models.get(name)
        if versions is None:
            raise self._unknown(name)
        wanted = version or (call.pinned_version if call is not None else None)
        if not wanted:
            if len(versions) == 1:
                return next(iter(versions.values()))
            return versions[self._traffic.pick(name, list(versions), call.request_id if call is not None else "")]
        if wanted not in versions:
            raise ApiError(
                "version_not_found",
                f"model {name!r} is not served in version {wanted[:60]!r}",
                field="version",
                hint=f"served: {', '.join(versions)}",
            )
        return versions[wanted]

    def only(self, family: str | None, call: Call | None = None) -> ServedModel:
        """The one served model (of a family), for requests that name none."""
        names = [n for n, versions in self._models.items() if family in (None, _family(versions))]
        if len(names) != 1:
            raise ApiError(
                "invalid_request",
                "the request names no model" if names else "no model of this kind is served",
                field="model",
                hint=f"name one of: {', '.join(names)}" if names else "see GET /v1/models",
            )
        return self.find(names[0], call=call)

    def follower(self, call: Call) -> ServedModel | None:
        """The loaded version that should repeat an answered call in the shadow, if any."""
        assert call.model is not None
        version = self._traffic.follower(call.model.name, call.model.version, call.request_id)
        return None if version is None else self._models.get(call.model.name, {}).get(version)

    def models(self) -> list[ServedModel]:
        """All served models, by name, newest version first."""
        return [self._models[n][v] for n in sorted(self._models) for v in newest_first(list(self._models[n]))]

    def versions(self, name: str) -> list[str]:
        return list(self._models.get(name, {}))

    async def load_all(self) -> None:
        """Load what the settings name, then repeat the commands other workers have carried out.

        A refused artifact is recorded and does not stop the others.
        """
        for wanted in self._wanted():
            try:
                await self._load(wanted)
            except ApiError as refusal:
                self.refused[wanted.tag] = refusal.message
        MODELS_REFUSED.set(len(self.refused))
        await self.follow_commands()
        self.loaded = True

    async def command(self, command: Command) -> ServedModel | None:
        """Carry out an administrator's command here, then in the other workers. Raises ApiError; nothing changes then.

        Returns the model that was loaded.
        """
        model = await self._carry_out(command)
        if model is not None:
            command = replace(command, version=model.version)  # "the latest" may be another one a moment later
        self._commands.write(command)
        return model

    async def follow_commands(self) -> None:
        """Carry out what other workers were told since the last call."""
        for command in self._commands.unread():
            try:
                await self._carry_out(command)
            except ApiError as refusal:
                log.error("%s %s failed in this worker: %s", command.operation, command.name, refusal.message)

    async def close(self) -> None:
        """Finish the accepted work of every model."""
        await asyncio.gather(*(model.close() for model in self.models()))

    def _wanted(self) -> list[Wanted]:
        if not (entries := self._settings.model_list()):
            return [Wanted(name) for family in self.families for name in stored_versions(family)]
        wanted: list[Wanted] = []
        for entry in map(parse_wanted, entries):
            every = stored_versions().get(entry.name, [None]) if entry.version == ALL else [entry.version]
            wanted += [Wanted(entry.name, version, entry.digest) for version in every]
        return [one for one in wanted if not attaches(one.name, one.version)]  # a bento names all it was built with

    async def _carry_out(self, command: Command) -> ServedModel | None:
        async with self._changing:
            changed = await self._change(command)
            collect_all()  # a model that left may hold itself in circles
            return changed

    async def _change(self, command: Command) -> ServedModel | None:
        if command.operation == "unload":
            self._unload(command.name, command.version)
            return None
        model = await self._load(Wanted(command.name, command.version))
        if command.canary_weight is not None:
            self._traffic.set_canary(model.name, model.version, command.canary_weight)
        if command.shadow_fraction is not None:
            self._traffic.set_shadow(model.name, model.version, command.shadow_fraction)
        return model

    async def _load(self, wanted: Wanted) -> ServedModel:
        """Open, warm up, announce, exchange. Raises ApiError (load_failed); what was served stays served."""
        name, tag = wanted.name, wanted.tag
        try:
            model = await self._open(wanted)
        except ArtifactError as fault:
            log.error("%s is not loaded: %s (%s)", tag, fault.message, fault.hint)
            raise ApiError("load_failed", fault.message, field="model", hint=fault.hint or None) from None
        except Exception:
            log.exception("%s is not loaded", tag)
            raise ApiError("load_failed", f"{tag} failed to load; the server's log says why") from None
        if (replaced := self._models.get(name, {}).get(model.version)) is not None:
            replaced.retire()
        tasks = self.families[model.artifact.manifest.family].tasks
        model.announce([*(task.route for task in tasks), INFER_ROUTE])
        self._models.setdefault(name, {})[model.version] = model  # a model it replaces ends with its last request
        for refused in (name, model.artifact.tag):
            self.refused.pop(refused, None)
        MODELS_REFUSED.set(len(self.refused))
        log.info("serving %s (%s)", model.artifact.tag, model.digest)
        return model

    async def _open(self, wanted: Wanted) -> ServedModel:
        artifact = await asyncio.to_thread(open_artifact, wanted.name, wanted.version)
        if wanted.digest not in (None, artifact.digest):
            raise ArtifactError(
                f"{artifact.tag} has digest {artifact.digest}, the setting `models` pins it to {wanted.digest}",
                "deliver the artifact that was meant, or name its digest: `pressroom models` shows it",
            )
        family = self.families.get(artifact.manifest.family)
        if family is None:
            served = ", ".join(self.families)
            raise ArtifactError(
                f"{artifact.tag} is of family {artifact.manifest.family!r}, this service serves {served}",
                "start the service of that family, or the gateway",
            )
        model = await asyncio.to_thread(family.load, artifact, self._settings)
        try:
            await model.warm_up()
        except BaseException:
            await model.close()
            raise
        return model

    def _unload(self, name: str, version: str | None) -> None:
        versions = self._models.get(name)
        if versions is None or (version is not None and version not in versions):
            raise self._unknown(name) if versions is None else ApiError(
                "version_not_found", f"model {name!r} is not served in version {version!r}", field="version"
            )  # fmt: skip
        for gone in [version] if version is not None else list(versions):
            versions.pop(gone).retire()
            self._traffic.forget(name, gone)
            log.info("no longer serving %s:%s", name, gone)
        if not versions:
            del self._models[name]

    def _unknown(self, name: str) -> ApiError:
        if not self.loaded:
            return ApiError("model_not_ready", "models are loading", hint="wait for GET /readyz to answer 200")
        for tag, reason in self.refused.items():
            if tag.partition(":")[0] == name:
                return ApiError("model_not_ready", f"model {name[:60]!r} is not served: {reason}", field="model")
        known = ", ".join(sorted(self._models)) or "none"
        return ApiError("model_not_found", f"no model {name[:60]!r} is served", field="model", hint=f"served: {known}")


def _family(versions: dict[str, ServedModel]) -> str:
    return next(iter(versions.values())).artifact.manifest.family
