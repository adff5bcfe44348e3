"""docs/growth.md: tables and a picture of what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.growth_measures import FEW, MANY, MODEL, Measured
from benchmarks.report import table

PICTURE = "growth.png"
_INTRODUCTION = """# Costs that grow

Ratios and shapes hold on any machine; the numbers are this one's, where the load generator shares the cores with the
server. One worker, one thread a forward pass. CPU is all of the server's processes, from their process clocks.

![Throughput against batch size and request size, memory against models, cold starts](growth.png)"""
_QUIET = 0.5  # load average at the start


def sections(found: dict[str, Any]) -> list[str]:
    """The page's sections, of the parts that were measured."""
    parts = [_INTRODUCTION + _busy(found["load_average"])]
    makers = {"batch": _batch, "payload": _payload, "models": _models, "start": _start, "load": _load}
    return parts + [make(found[part]) for part, make in makers.items() if part in found]


def _busy(load: float) -> str:
    if load < _QUIET:
        return ""
    return f"\n\n**The machine was not quiet (load average {load:.1f}): times are longer than they would be.**"


def _batch(found: dict[str, dict[int, Measured]]) -> str:
    headings = [
        "rows joined at most",
        *(f"{name}: {what}" for name in found for what in ("requests/s", "p99 ms", "CPU ms")),
    ]
    sizes = list(next(iter(found.values())))
    rows = [
        [str(size), *(cell for of in found.values() for cell in (f"{of[size].rate:,.0f}", *_times(of[size])))]
        for size in sizes
    ]
    words = f"`PRESSROOM_MAX_BATCH_ROWS`; {MANY} clients that ask for one row each, binary tensors over REST."
    return f"## Rows of a forward pass\n\n{words}\n\n{table(headings, rows)}"


def _times(one: Measured) -> tuple[str, str]:
    return f"{one.p99_ms:.1f}", f"{one.cpu_ms:.3f}"


def _payload(found: dict[str, dict[int, tuple[int, Measured]]]) -> str:
    headings = ["wire", "rows a request", "bytes a request", "rows/s", "MB/s", "p50 ms", "CPU ms a row"]
    rows = [
        [wire, str(count), f"{size:,}", f"{count * one.rate:,.0f}", f"{size * one.rate / 1e6:.1f}", f"{one.p50_ms:.1f}",
         f"{one.cpu_ms / count:.3f}"]
        for wire, by_rows in found.items()
        for count, (size, one) in by_rows.items()
    ]  # fmt: skip
    words = f"{MODEL}, {FEW} clients. A row is a window of 96 steps and 7 columns, 2,688 bytes as float32."
    return f"## Size of a request\n\n{words}\n\n{table(headings, rows)}"


def _models(found: dict[int, Any]) -> str:
    headings = ["loaded models", "ready after s", "CPU s", "MiB", "requests/s", "p99 ms", "CPU ms a request"]
    rows = [
        [str(count), f"{start.seconds:.1f}", f"{start.cpu:.1f}", f"{start.mib:,.0f}", f"{one.rate:,.0f}", *_times(one)]
        for count, (start, one) in found.items()
    ]
    few, many = min(found), max(found)
    each = (found[many][0].mib - found[few][0].mib) / (many - few)
    slower = (found[many][0].cpu - found[few][0].cpu) / (many - few)
    words = (
        f"{MODEL} under so many names, {MANY} clients that ask all of them in turn. Each further copy (3.4 MB of "
        f"weights) takes {each:.1f} MiB and {slower:.2f} CPU s at the start. Requests for different models cannot "
        "share a forward pass, so what many models cost under load is batching."
    )
    return f"## Loaded models\n\n{words}\n\n{table(headings, rows)}"


def _start(found: dict[str, Any]) -> str:
    headings = ["service", "ready after s", "CPU s", "MiB then"]
    rows = [[name, f"{one.seconds:.1f}", f"{one.cpu:.1f}", f"{one.mib:,.0f}"] for name, one in found.items()]
    words = (
        "From the start of `pressroom serve` until `/readyz` answers 200: imports, digests, sessions, every example "
        "answered. The quickest of the rounds, files in the page cache. `gateway` serves all families' artifacts."
    )
    return f"## Cold start\n\n{words}\n\n{table(headings, rows)}"


def _load(found: dict[str, dict[str, float]]) -> str:
    headings = ["artifact", "verify ms", "load ms", "first answer ms", "together ms"]
    rows = [
        [name, *(f"{1e3 * value:,.0f}" for value in (one["verify"], one["load"], one["warm"], sum(one.values())))]
        for name, one in found.items()
    ]
    words = (
        "One artifact of each family in a fresh process, after the imports: every file's digest checked, the model "
        "made of it, its example answered. A reload while serving takes as long; the old version answers meanwhile."
    )
    return f"## Loading an artifact\n\n{words}\n\n{table(headings, rows)}"


def failures(found: dict[str, Any]) -> int:
    """Requests that failed in any measurement."""
    return sum(one.failed for one in _measured(found))


def _measured(value: Any) -> Iterator[Measured]:
    if isinstance(value, Measured):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _measured(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _measured(item)


def draw(found: dict[str, Any], out: Path) -> None:
    """Four panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ((batch, payload), (models, start)) = plt.subplots(2, 2, figsize=(9, 6))
    for name, by_size in found["batch"].items():
        batch.plot(list(by_size), [one.rate for one in by_size.values()], "o-", label=name)
    _label(batch, "rows joined at most", "requests/s")
    for wire, by_rows in found["payload"].items():
        payload.plot(list(by_rows), [rows * one.rate for rows, (_, one) in by_rows.items()], "o-", label=wire)
    _label(payload, "rows a request", "rows/s")
    models.plot(list(found["models"]), [start.mib for start, _ in found["models"].values()], "o-", label="MiB")
    models.plot(list(found["models"]), [one.rate for _, one in found["models"].values()], "o-", label="requests/s")
    _label(models, "loaded models", "")
    start.barh(list(found["start"]), [one.seconds for one in found["start"].values()], color="tab:blue")
    start.set_xlabel("cold start, s")
    figure.tight_layout()
    figure.savefig(out, dpi=80)
    plt.close(figure)


def _label(panel: Any, across: str, up: str) -> None:
    panel.set_xscale("log", base=2)
    ticks = panel.lines[0].get_xdata()
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xlabel(across)
    panel.set_ylabel(up)
    panel.set_ylim(bottom=0)
    panel.legend(fontsize="small")
