"""Who is measured, on which files, and how each is started."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.environments import HOME
from benchmarks.llm_environments import llama_server, vllm_python
from benchmarks.server import ROOT

WORK = ROOT / "out" / "llm-benchmark"
PRECISIONS = ("fp32", "int8", "int4")
_VLLM = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CACHE_ROOT": str(HOME / "vllm-cache"),
}


@dataclass(frozen=True)
class Contender:
    """One generator with one kind of weights.

    command    made when asked for: it may have to build an environment, or press an artifact
    alone      measured with one request at a time
    together   measured with eight: "" not at all, "continuous" batching, or a "static" batch of equal lengths
    streams    tokens come as they are made, so that a first token can be timed while others are answered
    """

    name: str
    title: str
    command: Callable[[], list[str]]
    alone: bool = True
    together: str = "continuous"
    streams: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)


def ours(precision: str) -> str:
    """Name of our contender with these weights."""
    return f"pressroom-{precision}"


def contenders() -> dict[str, Contender]:
    """All there are, by name, in the order of the tables."""
    found = [
        Contender(ours(precision), f"pressroom {precision}", _module("pressroom_peer", lambda p=precision: artifact(p)))
        for precision in PRECISIONS
    ]
    for short, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        start = _module("transformers_peer", folder, dtype, "generate")
        found.append(Contender(f"transformers-{short}", f"transformers generate {short}", start, True, "", False))
    for short, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        start = _module("transformers_peer", folder, dtype, "batching")
        title = f"transformers continuous batching {short}"
        found.append(Contender(f"transformers-batching-{short}", title, start, False))
    found.append(Contender("vllm-bf16", "vLLM bf16", _vllm, settings=_VLLM))
    found.append(Contender("llama.cpp-q4_1", "llama.cpp Q4_1", _llama_cpp))
    found += [
        Contender(
            f"genai-{precision}",
            f"onnxruntime-genai {precision}",
            _module("genai_peer", lambda p=precision: genai_folder(p)),
            together="static",
            streams=False,
        )
        for precision in PRECISIONS
    ]
    return {one.name: one for one in found}


def _module(name: str, file: Callable[[], Path], *words: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.llm_peers.{name}", str(file()), *words]


def _vllm() -> list[str]:
    return [str(vllm_python()), "-m", "benchmarks.llm_peers.vllm_peer", str(folder())]


def _llama_cpp() -> list[str]:
    from export.llm_source import embedded_file

    return [sys.executable, "-m", "benchmarks.llm_peers.llama_cpp_peer", str(llama_server()), str(embedded_file())]


@cache
def folder() -> Path:
    """The embedded model as a Hugging Face folder, bfloat16."""
    from export.llm_source import EMBEDDED, open_model
    from export.progress import silent

    WORK.mkdir(parents=True, exist_ok=True)
    return open_model(EMBEDDED, WORK, silent).path


@cache
def artifact(precision: str) -> Path:
    """The folder of an artifact in the benchmarks' own store, pressed if it is not there as this code presses it."""
    from export.artifact import ArtifactError, open_artifact
    from export.llm import LlmJob, press

    name, version = f"smollm2-{precision}", _exporter()
    try:
        return open_artifact(name, version).path
    except ArtifactError:
        press(LlmJob(model=str(folder()), name=name, version=version, precision=precision))  # type: ignore[arg-type]
    return open_artifact(name, version).path


def _exporter() -> str:
    """What stands for the code that presses: a figure of an artifact it did not make would be no figure of it."""
    sources = sorted((ROOT / "export").glob("llm*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


@cache
def genai_folder(precision: str) -> Path:
    """What the model builder alone makes, with its own settings: what onnxruntime-genai runs."""
    import shutil
    import tempfile

    from export.llm_builder import build

    target = WORK / f"genai-{precision}"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=WORK) as scratch:
            shutil.move(build(folder(), precision, Path(scratch)), target)  # type: ignore[arg-type]
    return target
