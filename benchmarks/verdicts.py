"""What the serving benchmark claims, and whether this run bears it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.campaign import Cell
from benchmarks.wires import WIRES

OVERHEAD_MS = 0.3  # CPU a request above bare onnxruntime
FAST_WIRES = ("oip-binary", "grpc")
Medians = Mapping[Cell, Mapping[str, float]]


@dataclass(frozen=True)
class Verdict:
    """One claim, the number it rests on, and whether it holds."""

    claim: str
    found: str
    holds: bool


def verdicts(medians: Medians) -> list[Verdict]:
    """Every claim that the measured cells can decide."""
    busiest = max(cell.clients for cell in medians)
    cells = [cell for cell in medians if cell.clients == busiest and cell.batching]
    found = [_batching_wins(cell, medians) for cell in cells]
    found += [_overhead(cell, medians) for cell in cells if cell.wire in FAST_WIRES]
    return [*found, _answers(medians)]


def ratios(cell: Cell, medians: Medians) -> tuple[float, float]:
    """Batching on against off: requests/s gained, CPU a request saved; above 1 is better for both."""
    on, off = medians[cell], medians[Cell(cell.model, cell.wire, cell.clients, False)]
    return on["requests_per_s"] / off["requests_per_s"], off["cpu_ms"] / on["cpu_ms"]


def _batching_wins(cell: Cell, medians: Medians) -> Verdict:
    rate, cpu = ratios(cell, medians)
    claim = f"batching wins at {cell.clients} clients: {cell.model}, {WIRES[cell.wire].title}"
    return Verdict(claim, f"{rate:.2f} x requests/s, {cpu:.2f} x less CPU a request", rate > 1 and cpu > 1)


def _overhead(cell: Cell, medians: Medians) -> Verdict:
    numbers = medians[cell]
    over = numbers["overhead_ms"]
    claim = f"at most {OVERHEAD_MS} ms CPU above bare onnxruntime: {cell.model}, {WIRES[cell.wire].title}"
    found = (
        f"{over:.3f} ms ({numbers['cpu_ms']:.3f} - {numbers['floor_ms']:.3f} at {numbers['batch_rows']:.0f} rows; "
        f"alone onnxruntime takes {numbers['alone_ms']:.3f})"
    )
    return Verdict(claim, found, over <= OVERHEAD_MS)


def _answers(medians: Medians) -> Verdict:
    failed, wrong = (int(sum(m[name] for m in medians.values())) for name in ("failed", "wrong"))
    return Verdict("no failed and no wrong answer", f"{failed} failed, {wrong} wrong", failed == wrong == 0)
