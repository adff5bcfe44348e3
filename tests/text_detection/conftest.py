"""The detector of the tiny language model's texts, opened and served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from detecting import Store
from live_server import LiveServer, free_ports, running_server
from tiny_detector import DETECTOR


@pytest.fixture(scope="session")
def store(detector_home: Path) -> Store:
    return Store(detector_home)


@pytest.fixture
def found_here(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Named generators are looked for in the detector's home."""
    monkeypatch.setattr("services.generation.pool.open_artifact", lambda name, version: store.read(name, version))
    return store


@pytest.fixture(scope="session")
def detecting(detector_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready gateway that serves the tiny model and both versions of the detector; its own API is the endpoint."""
    ports = free_ports(2)
    settings = {
        "PRESSROOM_MODELS": f"{DETECTOR}:all,tiny-fp32",
        "PRESSROOM_TEXT_DETECT_UPSTREAM_URL": f"http://127.0.0.1:{ports[0]}/v1",
        "PRESSROOM_TEXT_DETECT_UPSTREAM_MODEL": "tiny-fp32",
    }
    log = tmp_path_factory.mktemp("detecting") / "server.log"
    with running_server(detector_home, log, environment=settings, ports=(ports[0], ports[1])) as server:
        yield server
