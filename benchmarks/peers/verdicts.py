"""What is claimed of us beside each peer at the busiest closed loop, and whether a run bears it out.

The best of ours (REST binary or gRPC) against the best of each peer, figure by figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from benchmarks.peers.campaign import Cell
from benchmarks.peers.contenders import CONTENDERS, OURS
from benchmarks.peers.wires import WIRES
from benchmarks.verdicts import Verdict

Medians = Mapping[Cell, Mapping[str, float]]
P99_ALLOWED = 1.2  # times the best peer's


def verdicts(medians: Medians) -> list[Verdict]:
    """Every claim the measured cells can decide."""
    busiest = max(cell.load.clients for cell in medians)
    cells = [cell for cell in medians if cell.load.clients == busiest]
    found = []
    for subject in _in_order(cell.subject for cell in cells):
        here = [cell for cell in cells if cell.subject == subject]
        peers = _in_order(cell.contender for cell in here if cell.contender != OURS)
        if not any(cell.contender == OURS for cell in here):
            continue
        found += [_cheaper(subject, peer, here, medians) for peer in peers]
        if peers:
            found.append(_latency(subject, here, medians))
        if "triton" in peers:
            found.append(_grpc(subject, here, medians))
    return [*found, _answers(medians)]


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _best(cells: Iterable[Cell], medians: Medians, figure: str) -> float:
    """The best wire's figure: the largest rate, the smallest of anything else."""
    values = [medians[cell][figure] for cell in cells]
    return max(values) if figure == "requests_per_s" else min(values)


def _cheaper(subject: str, peer: str, cells: list[Cell], medians: Medians) -> Verdict:
    ours = [cell for cell in cells if cell.contender == OURS]
    theirs = [cell for cell in cells if cell.contender == peer]
    rate = _best(ours, medians, "requests_per_s") / (_best(theirs, medians, "requests_per_s") or math.inf)
    our_cpu, their_cpu = _best(ours, medians, "cpu_ms"), _best(theirs, medians, "cpu_ms")
    return Verdict(
        f"{subject}: more requests/s and less CPU a request than {CONTENDERS[peer].title}",
        f"{rate:.2f} x requests/s, {our_cpu / their_cpu:.2f} x CPU ({our_cpu:.3f} against {their_cpu:.3f} ms)",
        rate > 1 and our_cpu < their_cpu,
    )


def _latency(subject: str, cells: list[Cell], medians: Medians) -> Verdict:
    ours = _best([cell for cell in cells if cell.contender == OURS], medians, "p99_ms")
    best = min((cell for cell in cells if cell.contender != OURS), key=lambda cell: medians[cell]["p99_ms"])
    theirs = medians[best]["p99_ms"]
    return Verdict(
        f"{subject}: p99 at most {P99_ALLOWED} x the best peer's",
        f"{ours / theirs:.2f} x ({ours:.1f} against {theirs:.1f} ms of {CONTENDERS[best.contender].title})",
        ours <= P99_ALLOWED * theirs,
    )


def _grpc(subject: str, cells: list[Cell], medians: Medians) -> Verdict:
    def cost(contender: str) -> float:
        over = [cell for cell in cells if cell.contender == contender and WIRES[cell.wire].grpc]
        return _best(over, medians, "cpu_ms")

    ours, theirs = cost(OURS), cost("triton")
    return Verdict(
        f"{subject}: gRPC takes at most Triton's CPU a request", f"{ours:.3f} against {theirs:.3f} ms", ours <= theirs
    )


def _answers(medians: Medians) -> Verdict:
    """Of every server: a wrong or failed answer of a peer makes its figures worthless."""
    failed, wrong, checked = (
        int(sum(numbers[name] for numbers in medians.values())) for name in ("failed", "wrong", "checked")
    )
    said = f"{failed} failed, {wrong} of {checked} compared ones wrong"
    return Verdict("no failed and no wrong answer of any server", said, failed == wrong == 0)
