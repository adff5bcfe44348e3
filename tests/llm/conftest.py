"""A server of two tiny language models, shared by this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, StartServer, running_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own, when its services are imported
    import services.llm  # noqa: F401


@pytest.fixture(scope="session")
def text(tiny_llm_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready gateway that serves tiny-fp32 and tiny-int8; eight slots, so that requests meet and wait."""
    log = tmp_path_factory.mktemp("text") / "server.log"
    settings = {"PRESSROOM_LLM_SLOTS": "8"}
    with running_server(tiny_llm_home, log, environment=settings) as server:
        yield server


@pytest.fixture(scope="module")
def start_text(tiny_llm_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Further servers of the same store: `start_text(*flags, environment=...)`; all are stopped at the end."""
    folder = tmp_path_factory.mktemp("texts")
    with ExitStack() as running:

        def start(*arguments: str, **options: Any) -> LiveServer:
            log = folder / f"server-{len(list(folder.iterdir()))}.log"
            return running.enter_context(running_server(tiny_llm_home, log, *arguments, **options))

        yield start
