"""A bento built from this checkout."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from live_server import BENTOML, clean_environment

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Bento:
    """A built bento: its tag, its folder, the BENTOML_HOME it lies in."""

    tag: str
    path: Path
    home: Path

    @property
    def source(self) -> Path:
        return self.path / "src"


def build(store: Path, home: Path) -> Bento:
    """`bentoml build` into `home`, with the artifacts of `store`."""
    shutil.copytree(store, home, symlinks=True)
    done = subprocess.run(
        [BENTOML, "build", "--output", "tag"],
        cwd=ROOT, env=clean_environment(home), capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    tag = done.stdout.strip().splitlines()[-1].removeprefix("__tag__:")
    name, _, version = tag.partition(":")
    return Bento(tag, home / "bentos" / name / version, home)
