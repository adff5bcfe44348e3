"""What `pressroom bench` shows: a table, JSON, a picture, and what was wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pressroom.bench_run import Result
from pressroom.bench_text import TextWindow
from pressroom.plots import panels, save

HEADINGS = ["wire", "load", "requests/s", "p50 ms", "p90 ms", "p99 ms", "failed", "wrong", "windows", "generator CPU"]
TEXT_HEADINGS = [
    "load", "requests/s", "tokens/s", "TTFT p50 ms", "p99", "gap p50 ms", "p99", "goodput/s", "failed", "windows",
]  # fmt: skip
BUSY = 0.9  # of one core: from here on the generator may be what limits


def rows(results: Sequence[Result]) -> list[list[str]]:
    """The table's cells, under HEADINGS."""
    return [
        [
            one.wire, str(one.load), _n(one.settled.rate),
            *(_ms(one.settled.percentile_ms(percent)) for percent in (50, 90, 99)),
            str(one.failed.total()), f"{one.wrong} of {one.compared}" if one.compared else "-", _windows(one),
            f"{_busy(one):.0%}",
        ]
        for one in results
    ]  # fmt: skip


def text_rows(results: Sequence[Result], ttft_ms: float, gap_ms: float) -> list[list[str]]:
    """The same of a language model, under TEXT_HEADINGS."""
    cells = []
    for one in results:
        window = one.settled
        assert isinstance(window, TextWindow)
        times = (window.first_ms(50), window.first_ms(99), window.gap_ms(50), window.gap_ms(99))
        share = window.good(ttft_ms, gap_ms)
        good = "-" if math.isnan(share) else f"{share * window.rate:.2f} ({share:.0%})"
        speed = [str(one.load), f"{window.rate:.2f}", _n(window.tokens_rate)]
        cells.append([*speed, *map(_ms, times), good, str(one.failed.total()), _windows(one)])
    return cells


def remarks(results: Sequence[Result]) -> list[str]:
    """What a reader has to know beside the numbers: failures, instability, a generator at its limit."""
    found = []
    for one in results:
        where = f"{one.wire}, {one.load}"
        for failure, count in one.failed.most_common():
            said = one.first_said.get(failure, "")
            found.append(f"{where}: {count} x {failure}" + (f": {said}" if said else ""))
        if one.wrong:
            found.append(f"{where}: {one.wrong} of {one.compared} compared answers differ from the first one")
        if not one.stable:
            found.append(f"{where}: not stable after {len(one.windows)} windows; the figures are of the last ones")
        if _busy(one) > BUSY:
            found.append(f"{where}: the load generator used a whole core: the server may be faster than this")
        if not one.load.closed and _behind(one):
            found.append(f"{where}: the server answers {one.settled.rate:,.0f} a second and falls behind")
    return found


def document(results: Sequence[Result], ttft_ms: float, gap_ms: float) -> list[dict[str, Any]]:
    """All of it for machines; a number that there is none of is null."""
    return [_entry(one, ttft_ms, gap_ms) for one in results]


def _entry(one: Result, ttft_ms: float, gap_ms: float) -> dict[str, Any]:
    window = one.settled
    figures = {f"p{percent}_ms": _number(window.percentile_ms(percent)) for percent in (50, 90, 95, 99)}
    if isinstance(window, TextWindow):
        share = window.good(ttft_ms, gap_ms)
        figures |= {"tokens_per_s": _number(window.tokens_rate), "goodput_share": _number(share)}
        figures["goodput_per_s"] = _number(share * window.rate)
        for percent in (50, 99):
            figures[f"ttft_p{percent}_ms"] = _number(window.first_ms(percent))
            figures[f"gap_p{percent}_ms"] = _number(window.gap_ms(percent))
    return {
        "wire": one.wire,
        "clients": one.load.clients or None,
        "rate": one.load.rate or None,
        "stable": one.stable,
        "requests_per_s": _number(window.rate),
        "answers": len(window.latencies),
        **figures,
        "failed": dict(one.failed),
        "compared": one.compared,
        "wrong": one.wrong,
        "generator_cores": _number(_busy(one)),
        "generator_lateness_ms": _number(1e3 * window.lateness),
        "windows": [
            {"seconds": round(w.seconds, 4), "requests_per_s": _number(w.rate), "p50_ms": _number(w.percentile_ms(50)),
             "p99_ms": _number(w.percentile_ms(99)), "failed": w.failed.total()}
            for w in one.windows
        ],
    }  # fmt: skip


def draw(results: Sequence[Result], out: Path) -> None:
    """Answers a second above latency, a bar a measurement; the last with a logarithmic axis."""
    figure, (above, below) = panels(2, "--png")
    names = [f"{one.wire}\n{one.load}" for one in results]
    places = range(len(results))
    above.bar(places, [one.settled.rate for one in results], color="tab:blue")
    above.set_ylabel("requests/s")
    for percent, colour in ((50, "tab:green"), (90, "tab:orange"), (99, "tab:red")):
        values = [one.settled.percentile_ms(percent) for one in results]
        below.plot(places, values, "o-", color=colour, linewidth=0.8, label=f"p{percent}")
    below.set_yscale("log")
    below.set_ylabel("latency, ms")
    below.set_xticks(places, names, fontsize="small")
    below.legend(loc="best", fontsize="small")
    save(figure, out, "--png")


def _windows(one: Result) -> str:
    return f"{len(one.windows)}" if one.stable else f"{len(one.windows)}, not stable"


def _behind(one: Result) -> bool:
    """Whether fewer answers came than chance explains: a Poisson count seldom lies four deviations low."""
    expected = one.load.rate * one.settled.seconds
    return len(one.settled.latencies) < expected - 4 * math.sqrt(expected)


def _busy(one: Result) -> float:
    """Cores the generator used."""
    return one.settled.own_cpu / one.settled.seconds if one.settled.seconds else 0.0


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def _n(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
