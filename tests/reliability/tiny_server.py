"""A running tiny service, its pace in the test's hands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from asking import tensor_message
from live_server import BENTOML, LiveServer, eventually, running_server

A, B = "tiny-a", "tiny-b"
UNLUCKY = 13.0
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class TinyServer:
    """server: the process; folder: where its models' `runs` and `hold` files lie."""

    server: LiveServer
    folder: Path

    def ask(self, *x: float, model: str = A, headers: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
        """The native route."""
        request = {"model": model, "x": list(x), **more}
        return self.server.post("/v1/tiny", json=request, headers=dict(headers or {}))

    def runs(self, model: str = A) -> list[list[float]]:
        """Rows of every forward pass so far."""
        path = self.folder / f"runs-{model}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def times_run(self, value: float, model: str = A) -> int:
        """Forward passes that held this value."""
        return sum(value in rows for rows in self.runs(model))

    def queued(self, model: str = A) -> float:
        return self.server.metric("pressroom_queue_rows", model=model)

    def wait_until_run(self, value: float, model: str = A) -> None:
        eventually(lambda: self.times_run(value, model), f"{value} is run")

    def wait_until_queued(self, rows: int, model: str = A) -> None:
        eventually(lambda: self.queued(model) == rows, f"{rows} rows are queued")

    @contextmanager
    def held(self, model: str = A) -> Iterator[None]:
        """Forward passes that begin here do not end before this block does."""
        hold = self.folder / f"hold-{model}"
        hold.touch()
        try:
            yield
        finally:
            hold.unlink(missing_ok=True)

    def release(self, model: str = A) -> None:
        (self.folder / f"hold-{model}").unlink()


def message(*x: float, model: str = A) -> Any:
    """The same request for gRPC."""
    return tensor_message(model, "x", np.array(x, dtype=np.float32)[:, None])


@contextmanager
def running_tiny(home: Path, folder: Path, **settings: str) -> Iterator[TinyServer]:
    """Start the tiny service; settings by name, `max_failures="3"`."""
    environment = {f"PRESSROOM_{name.upper()}": value for name, value in settings.items()}
    environment["TINY_FOLDER"] = str(folder)
    command = (BENTOML, "serve", "tiny_family:Tiny")
    log = folder / "server.log"
    with running_server(home, log, command=command, cwd=_HERE, environment=environment) as server:
        yield TinyServer(server, folder)
