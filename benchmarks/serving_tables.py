"""The serving benchmark's result as tables, a page and a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.campaign import FLOOR_ROWS, Campaign, Cell, Plan
from benchmarks.echo import TRANSPORTS
from benchmarks.machine import describe
from benchmarks.report import table
from benchmarks.stats import medians
from benchmarks.verdicts import Medians, Verdict
from benchmarks.wires import WIRES

HEADINGS = (
    "request", "clients", "batching", "requests/s", "p50 ms", "p99 ms", "CPU ms a request", "rows a batch",
    "bare onnxruntime ms", "above it ms", "load generator", "others",
)  # fmt: skip
_ADDED = ("failed", "wrong")
QUIET = 0.1  # of one core


def summary(campaign: Campaign) -> dict[Cell, dict[str, float]]:
    """Medians over the rounds of every cell; failed and wrong answers are added up."""
    found = {}
    for cell, results in campaign.results.items():
        rounds = [result.numbers() for result in results]
        found[cell] = medians(rounds) | {name: sum(one[name] for one in rounds) for name in _ADDED}
    return found


def rows(model: str, numbers: Medians) -> list[list[str]]:
    """One line a cell of a model, batching on above off."""
    return [_row(cell, found) for cell, found in numbers.items() if cell.model == model]


def _row(cell: Cell, found: Mapping[str, float]) -> list[str]:
    return [
        WIRES[cell.wire].title,
        str(cell.clients),
        "on" if cell.batching else "off",
        f"{found['requests_per_s']:,.0f}",
        f"{found['p50_ms']:.2f}",
        f"{found['p99_ms']:.2f}",
        f"{found['cpu_ms']:.3f}",
        f"{found['batch_rows']:.1f}",
        f"{found['floor_ms']:.3f}",
        f"{found['overhead_ms']:.3f}",
        f"{found['generator']:.0%}",
        f"{found['others']:.0%}",
    ]


def floors(campaign: Campaign) -> dict[str, dict[str, dict[int, float]]]:
    """Bare onnxruntime by model and company: CPU milliseconds a row by batch size, median over rounds."""
    return {
        model: {
            company: {size: median(getattr(one, company)[size] for one in measured) for size in FLOOR_ROWS}
            for company in ("alone", "busy")
        }
        for model, measured in campaign.floors.items()
    }


def floor_rows(campaign: Campaign) -> list[list[str]]:
    titles = {"alone": "alone", "busy": "busy neighbours"}
    return [
        [f"{model}, {titles[company]}", *(f"{ms:.3f}" for ms in costs.values())]
        for model, companies in floors(campaign).items()
        for company, costs in companies.items()
    ]


def echo_rows(campaign: Campaign) -> list[list[str]]:
    """gRPC transports alone, medians over rounds."""
    return [
        [
            TRANSPORTS[transport],
            f"{median(one.requests_per_s for one in measured):,.0f}",
            f"{median(one.cpu_ms for one in measured):.3f}",
        ]
        for transport, measured in campaign.echoes.items()
    ]


ECHO_HEADINGS = ("a gRPC server that answers at once", "calls/s", "CPU ms a call")
FLOOR_HEADINGS = ("bare onnxruntime, CPU ms a row", *(f"batch {rows}" for rows in FLOOR_ROWS))
VERDICT_HEADINGS = ("claim", "found", "holds")


def verdict_rows(found: Sequence[Verdict]) -> list[list[str]]:
    return [[v.claim, v.found, "yes" if v.holds else "NO"] for v in found]


def document(plan: Plan, campaign: Campaign, found: Sequence[Verdict]) -> dict[str, Any]:
    """Everything that was measured, for --json."""
    return {
        "machine": describe(),
        "plan": asdict(plan),
        "load_average_at_start": campaign.load,
        "bare_onnxruntime_ms_per_row": floors(campaign),
        "grpc_transports": {name: [asdict(one) for one in measured] for name, measured in campaign.echoes.items()},
        "cells": [
            {**asdict(cell), "median": numbers, "rounds": [r.numbers() for r in campaign.results[cell]]}
            for cell, numbers in summary(campaign).items()
        ],
        "verdicts": [asdict(v) for v in found],
        "failures": campaign.failures,
    }


def company(numbers: Mapping[Any, Mapping[str, float]]) -> str:
    """One sentence on who else used the machine."""
    others = median(found["others"] for found in numbers.values())
    if others <= QUIET:
        return f"Other programs used {others:.0%} of a core meanwhile (median)."
    return (
        f"**The machine was not quiet: other programs used {others:.0%} of a core meanwhile (median).**\nTimes and "
        "requests/s are worse than on a quiet machine; ratios of neighbouring lines hold."
    )


def sections(plan: Plan, campaign: Campaign, found: Sequence[Verdict]) -> list[str]:
    """The page docs/serving-benchmarks.md."""
    numbers = summary(campaign)
    head = f"""# Serving benchmarks

Closed-loop clients (each sends its next request when it has its answer) against one gateway with one worker, one
thread a forward pass; the load generator shares the machine. Every request asks for one window of 96 hours and 7
columns, brings its timestamps, and differs from the requests before it, so that nothing is answered from a cache.
Median of {plan.rounds} rounds of {plan.seconds:g} s. `benchmarks/README.md` explains every column."""
    tables = [f"## {model}\n\n{table(HEADINGS, rows(model, numbers))}" for model in plan.models]
    alone = [
        "## The gRPC transport alone\n\n"
        f"{max(plan.clients)} clients, messages of a forecast's size, a handler that answers at once: what is spent "
        "before and after a handler runs. The server carries gRPC over HTTP/2 of its own because of the difference "
        "(`PRESSROOM_GRPC_TRANSPORT=grpcio` takes grpcio's).\n\n" + table(ECHO_HEADINGS, echo_rows(campaign))
    ]
    return [
        head + "\n\n" + company(numbers),
        "## Verdicts\n\n" + table(VERDICT_HEADINGS, verdict_rows(found)),
        *tables,
        "## The graph alone\n\n"
        "The same graph and session settings in a process without a server, on an idle machine and with the other "
        "cores kept busy, as they are under load.\n\n" + table(FLOOR_HEADINGS, floor_rows(campaign)),
        *(alone if campaign.echoes else []),
    ]
