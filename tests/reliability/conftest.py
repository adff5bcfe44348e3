"""Stores of these tests: the tiny family's, and one in which CARD has a second version that runs in torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import etth1
import pytest
from keyring import KeyRing
from live_server import PRESSROOM, clean_environment
from stores import shared_store

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def tiny_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with tiny-a:1, tiny-a:2 and tiny-b:1."""
    home = tmp_path_factory.mktemp("tiny-home")
    subprocess.run([sys.executable, "tiny_artifacts.py"], cwd=_HERE, env=clean_environment(home), check=True)
    return home


@pytest.fixture(scope="session")
def two_versions_home(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled artifacts, and card-etth1:2: the same checkpoint run by torch. Copy it to damage it."""

    def press(home: Path) -> None:
        shutil.copytree(pressed_home, home, dirs_exist_ok=True)
        stem = etth1.DATA / "checkpoints" / "card_etth1_96_96"
        command = [PRESSROOM, "export", "forecast", "card", f"{stem}.safetensors", "--config", f"{stem}.json"]
        command += ["--name", etth1.CARD, "--version", "2", "--runtime", "torch"]
        command += ["--data", str(etth1.DATA / "ett" / "ETTh1.csv"), "--split", "ett-hourly"]
        done = subprocess.run(command, env=clean_environment(home), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + done.stdout

    return shared_store(tmp_path_factory, "two-versions", press)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyRing:
    """A key for each scope, one for two, and one with a limit; the operator's own file."""
    ring = KeyRing(tmp_path_factory.mktemp("keys"))
    for scope in ("infer", "metrics", "admin"):
        ring.make(scope, scope)
    ring.make("limited", "infer", per_minute=3)
    return ring
