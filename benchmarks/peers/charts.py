"""The charts of docs/benchmarks.md: what a request costs each server, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.campaign import Cell, Loop
from benchmarks.peers.contenders import OURS
from benchmarks.peers.tables import CHARTS, label
from benchmarks.peers.verdicts import Medians

_OURS, _THEIRS = "#c2410c", "#94a3b8"
_DPI = 70


def draw(folder: Path, numbers: Medians) -> list[Path]:
    """Write both charts; the paths written."""
    clients = max(cell.load.clients for cell in numbers)
    share = max(cell.load.share for cell in numbers)
    found = [
        _bars(folder / CHARTS["cpu"], numbers, Loop(clients=clients), "cpu_ms", f"CPU ms a request, {clients} clients")
    ]
    if share:
        title = f"p99 ms, open loop at {share:.0%} of each server's own rate"
        found.append(_bars(folder / CHARTS["latency"], numbers, Loop(share=share), "p99_ms", title))
    return found


def _bars(path: Path, numbers: Medians, load: Loop, figure: str, title: str) -> Path:
    """A panel a model, a bar a server, the smallest first; logarithmic, because servers differ by tens of times."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cells = [cell for cell in numbers if cell.load == load]
    subjects = list(dict.fromkeys(cell.subject for cell in cells))
    drawing, panels = plt.subplots(1, len(subjects), figsize=(4.4 * len(subjects), 4), squeeze=False)
    for panel, subject in zip(panels[0], subjects, strict=True):
        here = sorted((c for c in cells if c.subject == subject), key=lambda c: numbers[c][figure], reverse=True)
        _panel(panel, here, [numbers[cell][figure] for cell in here])
        panel.set_title(subject, fontsize=10)
    drawing.suptitle(title, fontsize=11)
    drawing.tight_layout()
    drawing.savefig(path, dpi=_DPI)
    plt.close(drawing)
    return path


def _panel(panel, cells: Sequence[Cell], values: Sequence[float]) -> None:  # type: ignore[no-untyped-def]
    colours = [_OURS if cell.contender == OURS else _THEIRS for cell in cells]
    bars = panel.barh([label(cell) for cell in cells], values, color=colours)
    panel.bar_label(bars, [f"{value:.3g}" for value in values], padding=2, fontsize=7)
    panel.set_xscale("log")
    panel.margins(x=0.25)
    panel.tick_params(labelsize=7)
