"""What a pod of each family needs: memory after start and at its peak, CPU and time to be ready. For k8s/families.

    python -m benchmarks.footprint [--seconds 20] [--write-docs]

Each family runs alone, one worker with one thread, and answers its artifacts' own examples, CALLERS at once. Memory
counts the supervisor and its worker, as a container's does, pages they share twice. Bundled artifacts are pressed into
the benchmarks' store where they are missing; of the other families what the store holds is served.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from benchmarks.command import ALL, chosen, run
from benchmarks.cpu import ServerCpu, descendants
from benchmarks.report import DOCS, machine_lines, replace_measured, table
from benchmarks.server import HOME, Gateway, gateway, use_own_store
from pressroom.bench_target import ROUTES

CALLERS = 16
MIB = 2**20
HEADINGS = ["family", "artifacts, MB", "ready after, CPU s", "after start, MiB", "peak, MiB", "CPU under load, cores"]


@dataclass(frozen=True)
class Footprint:
    """One family's figures; memory in MiB, artifacts in MB."""

    family: str
    artifacts: float
    ready_cpu: float
    started: float
    peak: float
    cores: float

    def cells(self) -> list[str]:
        numbers = (f"{self.artifacts:.0f}", f"{self.ready_cpu:.1f}", f"{self.started:.0f}", f"{self.peak:.0f}")
        return [self.family, *numbers, f"{self.cores:.2f}"]


def _forecasters() -> list[str]:
    from pressroom.bundled import press_bundled

    return [stored.name for stored in press_bundled()]


def _images() -> list[str]:
    from pressroom.bundled_detect import press_clips

    return [stored.name for stored in press_clips()]


def _texts() -> list[str]:
    from benchmarks.llm_contenders import artifact

    return [artifact("int8").parent.name]


def stored(family: str) -> Callable[[], list[str]]:
    """What is in the store; the guide of the family says how it is pressed."""

    def found() -> list[str]:
        from export.artifact import stored_versions

        return sorted(stored_versions(family))

    return found


FAMILIES: dict[str, Callable[[], list[str]]] = {
    "forecast": _forecasters,
    "llm": _texts,
    "detect": _images,
    "text-detect": stored("text-detect"),
    "watermark": stored("watermark"),
    "ehr": stored("ehr"),
}


def measure(family: str, names: list[str], seconds: float) -> Footprint:
    """Start the family, load it, read what it took."""
    requests = [request for name in names for request in _examples(name)]
    settings = {"PRESSROOM_MODELS": ",".join(names), **(keyed() if family == "watermark" else {})}
    with gateway(settings, family) as server:
        cpu = ServerCpu(server.pid)
        ready = cpu.read()
        started = resident(server)
        began = time.monotonic()
        answered = asyncio.run(_load(server.url, requests, seconds))
        spent, took = cpu.read().since(ready), time.monotonic() - began
        if not answered:
            raise RuntimeError(f"{family}: no request was answered")
        size = sum(_bytes(name) for name in names) / 1e6
        return Footprint(
            family, size, ready.workers + ready.supervisor, started, resident(server, "VmHWM"), spent.workers / took
        )


async def _load(url: str, requests: list[tuple[str, dict[str, Any]]], seconds: float) -> int:
    """Requests that were answered in so many seconds."""
    answered, until = 0, time.monotonic() + seconds
    async with httpx.AsyncClient(base_url=url, timeout=300) as http:

        async def call(number: int) -> None:
            nonlocal answered
            while time.monotonic() < until:
                route, body = requests[(number + answered) % len(requests)]
                (await http.post(route, json=body)).raise_for_status()
                answered += 1

        await asyncio.gather(*(call(number) for number in range(CALLERS)))
    return answered


def _examples(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Route and body of an artifact's example request."""
    from export.artifact import EXAMPLE, open_artifact

    artifact = open_artifact(name)
    if EXAMPLE not in artifact.manifest.files:  # an adapter: served with its backbone
        return []
    request = artifact.read_json(EXAMPLE)["request"]
    route = ROUTES[artifact.manifest.family].format(**request)
    return [(route, {**request, "model": name})]


def keyed() -> dict[str, str]:
    """Settings of a server that reads watermarks: a key of its own, and as many texts as come."""
    file = HOME / "footprint-keys.toml"
    file.write_text(f'current = "a"\n[[keys]]\nid = "a"\nsecret = "{secrets.token_hex(16)}"\n')
    return {"PRESSROOM_WATERMARK_KEYS_FILE": str(file), "PRESSROOM_WATERMARK_DECODES_PER_MINUTE": "0"}


def _bytes(name: str) -> int:
    from export.artifact import open_artifact

    return sum(entry.bytes for entry in open_artifact(name).manifest.files.values())


def resident(server: Gateway, field: str = "VmRSS") -> float:
    """MiB of the supervisor and its processes; VmHWM: the most each ever had."""
    return sum(_field(pid, field) for pid in (server.pid, *descendants(server.pid))) / MIB


def _field(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [one for one in lines if one.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def main(
    families: Annotated[str, typer.Option(help=f"Of {', '.join(FAMILIES)}.")] = ALL,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of the load on each.")] = 20.0,
    write_docs: Annotated[bool, typer.Option(help="Write the table in docs/kubernetes.md.")] = False,
) -> None:
    """Measure memory and CPU of a pod of each family. Exit status 1 if one has no artifact."""
    wanted = chosen(families, FAMILIES, "--families")
    use_own_store()
    found, missing = [], []
    for family in wanted:
        if names := FAMILIES[family]():
            found.append(measure(family, names, seconds))
            print(*found[-1].cells(), sep="\t", flush=True)
        else:
            missing.append(family)
    text = f"{table(HEADINGS, [one.cells() for one in found])}\n\n{machine_lines()}"
    print(f"\n{text}")
    for family in missing:
        print(f"not measured: {family}: no artifact of it in the benchmarks' store")
    if write_docs and not missing:
        replace_measured(DOCS / "kubernetes.md", "footprint", text)
    if missing:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main, "python -m benchmarks.footprint --families forecast,ehr")
