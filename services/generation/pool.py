"""Engines by the artifact they run, each opened once in a process however many served models need it.

A language model is needed by its own family, by detectors of its text, by watermarks: in one process they share its
weights, its slots and its queue. Whoever loads first opens the engine, the last one to let go closes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from export.artifact import Artifact, ArtifactError, open_artifact
from models.llm.spec import LanguageModelSpec
from models.packed.library import KernelsMissingError
from services.core.settings import Settings
from services.generation.audience import Audience
from services.generation.engine import Engine
from services.generation.faults import GraphError
from services.generation.observer import EngineObserver
from services.generation.opening import BackendOptions, open_engine
from services.generation.options import EngineOptions
from services.generation.vllm_backend import VllmEngine

_REMEDY = "export it again, or lower llm_slots and llm_context"

_Key = tuple[str, EngineOptions, BackendOptions]  # the artifact's digest, and how it is run


@dataclass(eq=False)
class _Shared:
    """An engine and how many hold it."""

    engine: Engine | VllmEngine
    audience: Audience
    holders: int = 1


class EngineHold:
    """One served model's part in an engine: use `engine` until `release`."""

    def __init__(self, pool: EnginePool, key: _Key, shared: _Shared, observer: EngineObserver) -> None:
        self.engine = shared.engine
        self._pool, self._key = pool, key
        self._audience, self._observer = shared.audience, observer
        self._released = self._was_last = False

    async def release(self) -> None:
        """Let go; the last holder waits until what the engine accepted is finished. May be called again."""
        if not self._released:
            self._released = True
            self._audience.leave(self._observer)
            self._was_last = self._pool.let_go(self._key)
        if self._was_last:
            await self.engine.close()


class EnginePool:
    """The engines of one process. May be used from several threads."""

    def __init__(self) -> None:
        self._engines: dict[_Key, _Shared] = {}
        self._lock = Lock()  # never held for long: `let_go` is called in the event loop
        self._opening = Lock()  # one engine is opened at a time, which takes seconds

    def hold(self, artifact: Artifact, settings: Settings, observer: EngineObserver) -> EngineHold:
        """The engine that runs a language model's artifact as the settings say; opened if nobody has it.

        observer  hears what the engine reports while it is held
        Raises ArtifactError where it cannot be opened.
        """
        backend = BackendOptions.of(settings, artifact.manifest.name)
        key = (artifact.digest, EngineOptions.of(settings), backend)
        with self._opening:
            shared = self._join(key) or self._open(key, artifact)
        shared.audience.join(observer)
        observer.load(shared.engine.load)
        return EngineHold(self, key, shared, observer)

    def let_go(self, key: _Key) -> bool:
        """One holder less; whether it was the last."""
        with self._lock:
            shared = self._engines[key]
            shared.holders -= 1
            if not shared.holders:
                del self._engines[key]
            return not shared.holders

    def _join(self, key: _Key) -> _Shared | None:
        with self._lock:
            shared = self._engines.get(key)
            if shared is not None:
                shared.holders += 1
            return shared

    def _open(self, key: _Key, artifact: Artifact) -> _Shared:
        _, options, backend = key
        spec, audience = read_spec(artifact), Audience()
        try:
            engine = open_engine(artifact.path, spec, options, backend, audience)
        except KernelsMissingError as fault:
            raise ArtifactError(f"{artifact.tag}: {fault.message}", fault.hint) from None
        except (GraphError, MemoryError) as fault:
            raise ArtifactError(f"{artifact.tag}: {fault or 'not enough memory'}", _REMEDY) from None
        shared = _Shared(engine, audience)
        with self._lock:
            self._engines[key] = shared
        return shared


def read_spec(artifact: Artifact) -> LanguageModelSpec:
    """What the settings of a language model's artifact say. Raises ArtifactError."""
    try:
        return LanguageModelSpec.from_settings(artifact.manifest.settings)
    except (KeyError, ValueError, TypeError) as fault:
        raise ArtifactError(
            f"{artifact.tag}: settings are not a language model's: {fault}", "export it again"
        ) from None


@dataclass(frozen=True)
class NamedGenerator:
    """The language model another artifact was made for."""

    name: str
    version: str
    digest: str

    @property
    def tag(self) -> str:
        return f"{self.name}:{self.version}"

    def open(self) -> Artifact:
        """Its artifact, from the store. Raises ArtifactError where that is missing, or another one than was meant."""
        found = open_artifact(self.name, self.version)
        if found.digest != self.digest:
            raise ArtifactError(
                f"{self.tag} is another language model than the one that was meant: its digest is {found.digest}, "
                f"not {self.digest}",
                "restore that version, or press again what names it",
            )
        return found
