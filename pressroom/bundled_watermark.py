"""A watermarking scheme for the embedded language model, pressed once as `bundled` does."""

from __future__ import annotations

from pathlib import Path

from export.environment import versions
from export.progress import Report, silent
from export.store import Stored
from pressroom import stamps
from pressroom.bundled import ROOT
from pressroom.bundled_llm import CALIBRATION

NAME = "smollm2-mark"
_SOURCES = ("export/watermark*.py", "models/balance_marking/**/*.py")


def press_scheme(generator: Stored, report: Report = silent) -> Stored:
    """Press (or find pressed) the scheme. generator: the language model whose texts it marks."""
    from export.watermark import WatermarkJob, press

    job = WatermarkJob(generator=generator.tag, name=NAME)
    return stamps.once(NAME, _recipe(generator), lambda: press(job, report).stored)


def _recipe(generator: Stored) -> str:
    """Digest of all the export depends on."""
    sources: list[Path] = [path for pattern in _SOURCES for path in sorted(ROOT.glob(pattern))]
    return stamps.recipe([CALIBRATION, *sources], {"generator": generator.digest, **versions()})
