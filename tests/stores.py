"""Model stores that many tests share: each is pressed once, though several processes may run tests at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live_server import clean_environment

_KEPT = "PRESSROOM_TEST_STORES"  # a folder: stores made there are found again by the next run
_ROOT = Path(__file__).resolve().parents[1]


def shared_store(factory: pytest.TempPathFactory, name: str, press: Callable[[Path], None]) -> Path:
    """A BENTOML_HOME that `press` fills if nobody has yet. Read it, copy it, never change it."""
    kept = os.environ.get(_KEPT)
    root = Path(kept) if kept else _shared_root(factory)
    root.mkdir(parents=True, exist_ok=True)
    home, done = root / name, root / f"{name}.pressed"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            home.mkdir(exist_ok=True)
            press(home)
            done.touch()
    return home


def run_press(home: Path, script: str, *arguments: str) -> None:
    """A Python script that fills the store, in a process of its own; it may import what lies in tests/."""
    last = "import sys; sys.path.append('tests')"  # after the root: tests/models is not models
    done = subprocess.run(
        [sys.executable, "-c", f"{last}\n{script}", *arguments],
        env=clean_environment(home), cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _shared_root(factory: pytest.TempPathFactory) -> Path:
    """This run's folder; that of all workers where pytest-xdist runs some."""
    base = factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "stores"
