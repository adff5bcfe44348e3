"""The record model that comes with the repository, pressed once as `bundled` does, and its task adapters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from export.environment import versions
from export.progress import Report, silent
from export.store import Stored
from pressroom import stamps
from pressroom.bundled import DATA, ROOT

NAME = "motor-synthea"
FOLDER = DATA / "checkpoints" / "motor_synthea"
_SOURCES = ("export/ehr*.py", "export/onnx_graph.py", "models/motor/**/*.py")


def press_records(report: Report = silent) -> list[Stored]:
    """Press (or find pressed) the network; store the adapters that attach to it."""
    from export.ehr_adapter import store_adapter

    network = stamps.once(NAME, _recipe(), partial(_press, report))
    return [network, *(store_adapter(path).stored for path in sorted(FOLDER.glob("*.adapter.json")))]


def _press(report: Report) -> Stored:
    from export.ehr import EhrJob, press

    return press(EhrJob(folder=FOLDER, name=NAME), report).stored


def _recipe() -> str:
    """Digest of all the network's export depends on."""
    files: list[Path] = [path for path in sorted(FOLDER.iterdir()) if not path.name.endswith(".adapter.json")]
    files += [path for pattern in _SOURCES for path in sorted(ROOT.glob(pattern))]
    return stamps.recipe(files, {"name": NAME, **versions()})
