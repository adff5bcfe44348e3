"""A run's result as tables, a JSON document and the page docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.machine import describe
from benchmarks.peers.campaign import FLOOR_ROWS, Campaign, Cell, Loop
from benchmarks.peers.contenders import CONTENDERS, OURS
from benchmarks.peers.subjects import MAX_BATCH_ROWS, MAX_DELAY_MS
from benchmarks.peers.verdicts import Medians
from benchmarks.peers.wires import WIRES
from benchmarks.report import table
from benchmarks.serving_tables import VERDICT_HEADINGS, company, verdict_rows
from benchmarks.stats import medians
from benchmarks.verdicts import Verdict

HEADINGS = ("server", "requests/s", "p50 ms", "p99 ms", "CPU ms a request", "load generator")
MEMORY_HEADINGS = ("memory, MiB",)
_ADDED = ("failed", "wrong", "answers", "checked")
CHARTS = {"cpu": "benchmarks-cpu.png", "latency": "benchmarks-latency.png"}


def summary(campaign: Campaign) -> dict[Cell, dict[str, float]]:
    """Medians over the rounds of every cell; counts are added up."""
    found = {}
    for cell, results in campaign.results.items():
        rounds = [asdict(result) for result in results]
        found[cell] = medians(rounds) | {name: sum(one[name] for one in rounds) for name in _ADDED}
    return found


def label(cell: Cell) -> str:
    """A server and, where it has several, the wire."""
    contender = CONTENDERS[cell.contender]
    return f"{contender.title}, {WIRES[cell.wire].title}"


def groups(campaign: Campaign) -> Iterator[tuple[str, Loop, list[Cell]]]:
    """The measured cells by model and load."""
    for subject in campaign.floors:
        for load in campaign.plan.loads():
            cells = [cell for cell in campaign.results if (cell.subject, cell.load) == (subject, load)]
            if cells:
                yield subject, load, cells


def rows(cells: Sequence[Cell], numbers: Medians) -> list[list[str]]:
    """Of one model under one load, the least CPU first; ours in bold."""
    return [_row(cell, numbers[cell]) for cell in sorted(cells, key=lambda cell: numbers[cell]["cpu_ms"])]


def _row(cell: Cell, found: Mapping[str, float]) -> list[str]:
    name = label(cell)
    return [
        f"**{name}**" if cell.contender == OURS else name,
        f"{found['requests_per_s']:,.0f}",
        f"{found['p50_ms']:.2f}",
        f"{found['p99_ms']:.2f}",
        f"{found['cpu_ms']:.3f}",
        f"{found['generator']:.0%}",
    ]


def overview_headings(campaign: Campaign) -> list[str]:
    return [f"{max(campaign.plan.clients)} clients: CPU ms a request, requests/s, p99 ms", *campaign.floors]


def overview_rows(campaign: Campaign, numbers: Medians) -> list[list[str]]:
    """Servers by models, each by the wire that cost it least, under the busiest closed loop."""
    busiest = [cell for cell in numbers if cell.load.clients == max(campaign.plan.clients)]

    def said(name: str, subject: str) -> str:
        here = [numbers[cell] for cell in busiest if (cell.contender, cell.subject) == (name, subject)]
        if not here:
            return "-"
        best = min(here, key=lambda one: one["cpu_ms"])
        return f"{best['cpu_ms']:.3f}, {best['requests_per_s']:,.0f}, {best['p99_ms']:.1f}"

    return [[_title(name), *(said(name, subject) for subject in campaign.floors)] for name in campaign.plan.contenders]


def _title(name: str) -> str:
    title = CONTENDERS[name].title
    return f"**{title}**" if name == OURS else title


def memory_rows(campaign: Campaign) -> list[list[str]]:
    """Servers by models: MiB."""
    names = [name for name in campaign.plan.contenders if any(one == name for _, one in campaign.memory)]
    subjects = list(campaign.floors)
    return [
        [
            CONTENDERS[name].title,
            *(
                f"{campaign.memory[subject, name]:.0f}" if (subject, name) in campaign.memory else "-"
                for subject in subjects
            ),
        ]
        for name in names
    ]


def floor_rows(campaign: Campaign) -> list[list[str]]:
    return [[subject, *(f"{costs[size]:.3f}" for size in FLOOR_ROWS)] for subject, costs in campaign.floors.items()]


FLOOR_HEADINGS = ("bare onnxruntime, CPU ms a row", *(f"batch {size}" for size in FLOOR_ROWS))


def document(campaign: Campaign, found: Sequence[Verdict]) -> dict[str, Any]:
    """Everything that was measured, with versions and machine."""
    return {
        "machine": describe(),
        "servers": {name: list(CONTENDERS[name].packages) for name in campaign.plan.contenders},
        "plan": asdict(campaign.plan),
        "load_average_at_start": campaign.load,
        "bare_onnxruntime_ms_per_row": campaign.floors,
        "memory_mib": [{"model": s, "server": n, "mib": mib} for (s, n), mib in campaign.memory.items()],
        "cells": [
            {**asdict(cell), "median": numbers, "rounds": [asdict(one) for one in campaign.results[cell]]}
            for cell, numbers in summary(campaign).items()
        ],
        "verdicts": [asdict(verdict) for verdict in found],
        "missing": campaign.missing,
        "failures": campaign.failures,
    }


def sections(campaign: Campaign, found: Sequence[Verdict]) -> list[str]:
    """The page docs/benchmarks.md."""
    plan, numbers = campaign.plan, summary(campaign)
    parts = [
        f"{_head(campaign)}\n\n{company(numbers)}",
        table(overview_headings(campaign), overview_rows(campaign, numbers)),
        f"![CPU a request of every server]({CHARTS['cpu']})",
        f"![p99 of every server]({CHARTS['latency']})",
        "## Verdicts\n\n" + table(VERDICT_HEADINGS, verdict_rows(found)),
    ]
    for subject, load, cells in groups(campaign):
        parts.append(f"## {subject}, {_said(load, plan.clients)}\n\n{table(HEADINGS, rows(cells, numbers))}")
    parts.append(_memory(campaign))
    parts.append("## The graphs alone\n\n" + table(FLOOR_HEADINGS, floor_rows(campaign)))
    return [*parts, _versions(campaign)]


def _said(load: Loop, clients: Sequence[int]) -> str:
    if load.clients:
        return f"{load.clients} client{'s' * (load.clients > 1)}"
    return f"open loop at {load.share:.0%} of its own rate with {max(clients)} clients"


def _head(campaign: Campaign) -> str:
    plan = campaign.plan
    return f"""# Pressroom beside other servers

The same ONNX graphs in the same onnxruntime with the same session options (one thread, no spinning), one worker,
batches of up to {MAX_BATCH_ROWS} rows; peers wait {MAX_DELAY_MS:g} ms for company. All servers and the load generator
share the machine and are measured in turns; those whose turn it is not are stopped. Median of {plan.rounds} rounds of
{plan.seconds:g} s. `benchmarks/README.md` says how to read the columns, `benchmarks/peers/servers/` holds the peers'
programs. What batching brings and what our protocols cost: [serving benchmarks](serving-benchmarks.md)."""


def _memory(campaign: Campaign) -> str:
    headings = (*MEMORY_HEADINGS, *campaign.floors)
    said = "Proportional set size of all of a server's processes after the measurements."
    return f"## Memory\n\n{said}\n\n{table(headings, memory_rows(campaign))}"


def _versions(campaign: Campaign) -> str:
    lines = [
        f"- {CONTENDERS[n].title}: {', '.join(CONTENDERS[n].packages)}" for n in campaign.plan.contenders if n != OURS
    ]
    missing = [f"- not measured: {name}: {why}" for name, why in campaign.missing.items()]
    return "\n".join(["## Peers", "", *lines, *missing])
