"""A store for code run in this process, and one with two graphs behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import PRESSROOM, LiveServer, running_server
from stores import run_press, shared_store

_PRESS = """
sys.path.append('tests/onnx_graphs')
from pathlib import Path
from export.onnx_press import OnnxJob, press
from graphs import affine, pick, write
for name, model in (("affine", affine()), ("pick", pick())):
    press(OnnxJob(file=write(model, Path(sys.argv[1]) / f"{name}.onnx"), name=name))
"""


@pytest.fixture(scope="session")
def graph_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME that holds `affine` and `pick`. Shared: read it, copy it, never change it."""
    files = tmp_path_factory.mktemp("graphs")
    return shared_store(tmp_path_factory, "graphs", lambda home: run_press(home, _PRESS, str(files)))


@pytest.fixture(scope="session")
def graph_server(graph_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready onnx service over that store."""
    log = tmp_path_factory.mktemp("graph-server") / "server.log"
    with running_server(graph_home, log, command=(PRESSROOM, "serve", "onnx")) as running:
        yield running
