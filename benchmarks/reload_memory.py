"""Does memory come back? Resident memory over 50 cycles of unloading and loading a model at run time.

    python -m benchmarks.reload_memory [--cycles 50] [--json out/reload_memory.json]

Each cycle unloads the model and loads it again by the administrator's routes, then asks it once, so that every cycle
builds a session, its thread and its buffers. The first cycles settle the allocator; the figure is the resident memory
of the last against the median of the early ones. The promise: at most 5 % more. Exit status 1 if it is broken.
"""

from __future__ import annotations

import json
import secrets
import statistics
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.command import run
from benchmarks.server import Gateway, gateway, use_own_store
from benchmarks.soak import workers_mib

MODEL = "itransformer-etth1"
SETTLING = 5  # cycles whose median is the baseline
PROMISE = 1.05


@dataclass(frozen=True)
class Cycles:
    """Resident MiB of the workers before anything was reloaded, and after every cycle."""

    before_mib: float
    after_mib: list[float]

    @property
    def baseline(self) -> float:
        return statistics.median(self.after_mib[:SETTLING])

    @property
    def ratio(self) -> float:
        return statistics.median(self.after_mib[-SETTLING:]) / self.baseline

    def summary(self) -> str:
        """One line of figures."""
        return (
            f"resident memory at start {self.before_mib} MiB, first {SETTLING} cycles {self.baseline} MiB, "
            f"after {len(self.after_mib)} {self.after_mib[-1]} MiB: ratio {self.ratio:.3f} (promise {PROMISE})"
        )


class Administrator:
    """Commands to a gateway with a key of its own."""

    def __init__(self, server: Gateway, secret: str) -> None:
        self._server, self._secret = server, secret

    def post(self, path: str, document: dict[str, Any]) -> Any:
        """The answer to one request. Raises urllib.error.HTTPError if it is refused."""
        headers = {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
        body = json.dumps(document).encode()
        request = urllib.request.Request(self._server.url + path, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read())


def cycle_memory(
    server: Gateway, secret: str, example: dict[str, Any], cycles: int, say: Callable[[str], None]
) -> Cycles:
    """Unload, load and ask once, `cycles` times."""
    operator, found = Administrator(server, secret), []
    before = round(workers_mib(server.pid), 1)
    for number in range(1, cycles + 1):
        for operation in ("unload", "load"):
            operator.post(f"/v2/repository/models/{MODEL}/{operation}", {})
        operator.post("/v1/forecast", example)
        found.append(round(workers_mib(server.pid), 1))
        if number % 10 == 0:
            say(f"{number:4} cycles  {found[-1]:7.1f} MiB")
    return Cycles(before, found)


def main(
    cycles: Annotated[int, typer.Option(min=2 * SETTLING, help="How often to unload and load.")] = 50,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure resident memory over reloads."""
    use_own_store()
    from export.artifact import EXAMPLE, open_artifact
    from pressroom.bundled import press_bundled
    from services.core.auth import hash_secret

    press_bundled()
    secret = secrets.token_urlsafe(32)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as keys:
        keys.write(f'[[keys]]\nid = "bench"\nsha256 = "{hash_secret(secret)}"\nscopes = ["infer", "admin"]\n')
        keys.flush()
        with gateway({"PRESSROOM_MODELS": MODEL, "PRESSROOM_KEYS_FILE": keys.name}) as server:
            example = open_artifact(MODEL).read_json(EXAMPLE)["request"]
            found = cycle_memory(server, secret, example, cycles, typer.echo)
    typer.echo(found.summary())
    if json_file is not None:
        json_file.write_text(json.dumps({**asdict(found), "ratio": found.ratio}, indent=1) + "\n")
    raise typer.Exit(found.ratio > PROMISE)


if __name__ == "__main__":
    run(main, "python -m benchmarks.reload_memory --cycles 50")
