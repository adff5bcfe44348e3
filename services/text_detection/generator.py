"""The language model a detector was made for, as an engine."""

from __future__ import annotations

from models.dna_gpt.detector import DetectorSpec
from services.core.settings import Settings
from services.generation.observer import EngineObserver
from services.generation.pool import EngineHold, EnginePool, NamedGenerator

_OWN_GRAPH = {"llm_backend": "onnx", "llm_torch_folder": ""}  # thresholds hold for the arithmetic they were made with


def hold_generator(spec: DetectorSpec, settings: Settings, engines: EnginePool, observer: EngineObserver) -> EngineHold:
    """Raises ArtifactError where the very artifact is not in the store, or cannot be opened."""
    named = spec.generator
    artifact = NamedGenerator(named.name, named.version, named.digest).open()
    return engines.hold(artifact, settings.model_copy(update=_OWN_GRAPH), observer)
