"""From an artifact's folder to an engine that runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from models.llm.spec import LanguageModelSpec
from services.core.runtime import RuntimeOptions
from services.core.settings import Settings
from services.generation.backend import Backend
from services.generation.engine import Engine
from services.generation.observer import EngineObserver
from services.generation.onnx_backend import OnnxBackend
from services.generation.options import EngineOptions
from services.generation.tokenizer import Tokenizer
from services.generation.vllm_backend import VllmEngine, open_vllm

GRAPH, TOKENIZER = "model.onnx", "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """What runs the network.

    kind          "onnx": the artifact's graph on the CPU; from `torch_folder`: "torch", transformers; "vllm", vLLM
    torch_folder  Hugging Face folder (config.json, *.safetensors) of the same model, as graphs cannot become networks
    runtime       threads, and whether a CUDA device is used (torch only)
    """

    kind: Literal["onnx", "torch", "vllm"] = "onnx"
    torch_folder: str = ""
    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)

    @classmethod
    def of(cls, settings: Settings, model: str) -> BackendOptions:
        """What the server's settings say for the model of this name."""
        return cls(
            kind=settings.llm_backend,
            torch_folder=settings.llm_torch_folder.replace("{name}", model),
            runtime=RuntimeOptions(threads=settings.threads, cuda=settings.cuda),
        )


def open_engine(
    folder: Path,
    spec: LanguageModelSpec,
    options: EngineOptions,
    backend_options: BackendOptions,
    observer: EngineObserver,
) -> Engine | VllmEngine:
    """Load an artifact's graph and tokenizer; takes seconds, with vLLM a minute.

    Raises GraphError, KernelsMissingError, MemoryError, OSError where it cannot be loaded.
    """
    if backend_options.kind == "vllm":
        return open_vllm(Path(backend_options.torch_folder), folder / TOKENIZER, spec, options, observer)
    tokenizer = Tokenizer.from_file(folder / TOKENIZER)
    return Engine(open_backend(folder, spec, options, backend_options), tokenizer, spec, options, observer)


def open_backend(
    folder: Path, spec: LanguageModelSpec, options: EngineOptions, backend_options: BackendOptions
) -> Backend:
    """The network alone. Raises as `open_engine` does."""
    capacity = options.context or spec.context_length
    if options.kv_tokens:
        capacity = min(capacity, options.kv_tokens)
    longest = options.prefill_chunk + 1
    if backend_options.kind == "onnx":
        return OnnxBackend(folder / GRAPH, spec, options.slots, capacity, longest, backend_options.runtime)
    from services.generation.torch_backend import TorchBackend

    return TorchBackend(Path(backend_options.torch_folder), spec, options.slots, capacity, backend_options.runtime)
