"""Servers that mark with the scheme of eight bits in `mark_home`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, StartServer, running_server
from marked_server import SECRETS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own, when its services are imported
    import services.watermark  # noqa: F401


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two keys; `new` marks."""
    file = tmp_path_factory.mktemp("keys") / "watermark.toml"
    entries = "\n".join(f'[[keys]]\nid = "{one}"\nsecret = "{secret}"' for one, secret in SECRETS.items())
    file.write_text(f'current = "new"\n{entries}\n')
    return file


@pytest.fixture(scope="session")
def marks(mark_home: Path, key_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A gateway that marks what asks for it, and keeps a registry."""
    folder = tmp_path_factory.mktemp("marks")
    settings = {
        "PRESSROOM_WATERMARK_KEYS_FILE": str(key_file),
        "PRESSROOM_WATERMARK_SCHEME": "tiny-mark",
        "PRESSROOM_WATERMARK_REGISTRY": f"sqlite:///{folder / 'messages.db'}",
        "PRESSROOM_WATERMARK_DECODES_PER_MINUTE": "0",
        "PRESSROOM_ACCESS_LOG": "all",
    }
    with running_server(mark_home, folder / "server.log", environment=settings) as server:
        yield server


@pytest.fixture(scope="session")
def always(mark_home: Path, key_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A gateway that marks every answer, whatever a request says; twelve readings a minute."""
    folder = tmp_path_factory.mktemp("always")
    settings = {
        "PRESSROOM_WATERMARK_KEYS_FILE": str(key_file),
        "PRESSROOM_WATERMARK_SCHEME": "tiny-mark",
        "PRESSROOM_WATERMARK_REGISTRY": f"sqlite:///{folder / 'messages.db'}",
        "PRESSROOM_WATERMARK_POLICY": "always",
        "PRESSROOM_WATERMARK_DECODES_PER_MINUTE": "12",
    }
    with running_server(mark_home, folder / "server.log", environment=settings) as server:
        yield server


@pytest.fixture(scope="module")
def start_marks(mark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Further servers of the same store; all are stopped at the end."""
    folder = tmp_path_factory.mktemp("marking")
    with ExitStack() as running:

        def start(*arguments: str, **options: Any) -> LiveServer:
            log = folder / f"server-{len(list(folder.iterdir()))}.log"
            return running.enter_context(running_server(mark_home, log, *arguments, **options))

        yield start
