"""The small CLIP that comes with the repository, before and after CLIPSelf, pressed once as `bundled` does.

clipself-tiny   dense features after CLIPSelf, whole images by the weights from before
clip-tiny       the weights from before for everything
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from export.environment import versions
from export.progress import Report, silent
from export.store import Stored
from pressroom import stamps
from pressroom.bundled import DATA, ROOT

FOLDER = DATA / "checkpoints" / "clipself_tiny"
CONFIG = FOLDER / "clip_tiny.json"
BEFORE, AFTER = FOLDER / "clip_tiny_before.safetensors", FOLDER / "clipself_tiny_visual.safetensors"
SIZE = 192  # pixels: the scenes'
LICENCE = "Apache-2.0, our own training run"
_SOURCES = ("export/detect*.py", "export/onnx_graph.py", "models/clipself/**/*.py")
NAMES = ("clipself-tiny", "clip-tiny")


def press_clips(report: Report = silent) -> list[Stored]:
    """Press (or find pressed) both."""
    return [stamps.once(name, _recipe(name), partial(_press, name, report)) for name in NAMES]


def _press(name: str, report: Report) -> Stored:
    from export.detect import DetectJob, press

    after = name == NAMES[0]
    job = DetectJob(
        checkpoint=AFTER if after else BEFORE,
        config=str(CONFIG),
        name=name,
        clip=BEFORE if after else None,
        size=SIZE,
        licence=LICENCE,
    )
    return press(job, report).stored


def _recipe(name: str) -> str:
    """Digest of all both depend on."""
    sources: list[Path] = [path for pattern in _SOURCES for path in sorted(ROOT.glob(pattern))]
    return stamps.recipe([AFTER, BEFORE, CONFIG, *sources], {"name": name, "licence": LICENCE, **versions()})
