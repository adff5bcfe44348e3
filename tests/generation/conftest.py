"""Fixtures: tiny Llamas as artifacts and as a Hugging Face folder, and engines over a network without arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_tools import Asker, OpenGraph, StartEngine, running_engine
from tiny_llm import make_tiny_llama
from toy_backend import ToyBackend

from models.llm.spec import LanguageModelSpec
from services.core.runtime import RuntimeOptions
from services.generation.onnx_backend import OnnxBackend
from services.generation.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Hugging Face folder both tiny artifacts were pressed from."""
    return make_tiny_llama(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture(scope="session")
def artifact(tiny_llm_home: Path) -> Callable[[str], Path]:
    """artifact("fp32") -> folder of the tiny artifact of that precision."""

    def find(precision: str) -> Path:
        (found,) = (tiny_llm_home / "models" / f"tiny-{precision}").glob("*/artifact.json")
        return found.parent

    return find


@pytest.fixture(scope="session")
def spec(artifact: Callable[[str], Path]) -> LanguageModelSpec:
    """Of the tiny fp32 artifact; the toy network has the same vocabulary."""
    return LanguageModelSpec.from_settings(json.loads((artifact("fp32") / "artifact.json").read_bytes())["settings"])


@pytest.fixture(scope="session")
def tokenizer(artifact: Callable[[str], Path]) -> Tokenizer:
    return Tokenizer.from_file(artifact("fp32") / "tokenizer.json")


@pytest.fixture
def open_graph(artifact: Callable[[str], Path], spec: LanguageModelSpec) -> OpenGraph:
    """open_graph(precision, slots=8) -> the artifact's graph with an empty cache."""

    def start(precision: str = "fp32", slots: int = 8) -> OnnxBackend:
        path = artifact(precision) / "model.onnx"
        return OnnxBackend(path, spec, slots, spec.context_length, 256, RuntimeOptions())

    return start


@pytest.fixture
def start_engine(tokenizer: Tokenizer, spec: LanguageModelSpec) -> StartEngine:
    """start_engine(backend=None, **EngineOptions): a running engine, over the toy network if none is given."""

    def start(backend: Any = None, **options: Any) -> AbstractAsyncContextManager[Asker]:
        return partial(running_engine, backend or ToyBackend(), tokenizer, spec)(**options)

    return start
