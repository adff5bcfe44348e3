"""Press the golden detectors into the store BENTOML_HOME names.

A golden case's state is written out as the official checkpoint it came from.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

GOLDEN = ROOT / "tests" / "golden" / "clipself"
DETECTORS = {"fvit-tiny": ("fvit_tiny", 128), "fvit-transfer-tiny": ("fvit_transfer_tiny", 112)}


def write_state(case: str, folder: Path) -> Path:
    """The official state dict of a golden case, as a checkpoint file."""
    arrays = load_file(GOLDEN / f"{case}.safetensors")
    state = {name.removeprefix("state."): t for name, t in arrays.items() if name.startswith("state.")}
    file = folder / f"{case}.safetensors"
    save_file(state, file)
    return file


def write_config(case: str, folder: Path) -> Path:
    """The official configuration of a golden case, as a file."""
    file = folder / f"{case}.json"
    file.write_text(json.dumps(json.loads((GOLDEN / f"{case}.json").read_bytes())["config"]))
    return file


def main() -> None:
    """Press what is not pressed yet."""
    from export.artifact import stored_versions
    from export.detect import DetectJob, press

    with tempfile.TemporaryDirectory() as scratch:
        for name, (case, size) in DETECTORS.items():
            if name not in stored_versions():
                folder = Path(scratch)
                job = DetectJob(
                    checkpoint=write_state(case, folder), config=str(write_config(case, folder)), name=name, size=size
                )
                press(job)


if __name__ == "__main__":
    main()
