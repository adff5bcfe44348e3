"""A store with a detector of the tiny language model's texts: version 1 has no thresholds, version 2 has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from detecting import DETECTOR, Store, numbered
from live_server import LiveServer, clean_environment, free_ports, running_server
from stores import shared_store

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "data" / "text" / "wikitext2_calibration.txt"
PRESSROOM = """
import json, sys
from pressroom.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
"""
WORDS, TEXTS = (24, 28, 32, 36), 40


@pytest.fixture(scope="session")
def detector_home(tiny_llm_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME with tiny-fp32 and the detector, made by the command line. Shared: read it, copy it."""

    def press(home: Path) -> None:
        shutil.copytree(tiny_llm_home / "models" / "tiny-fp32", home / "models" / "tiny-fp32")
        sizes = ["--fewest-words", "20", "--fewest-distinct", "10", "--regenerations", "2", "--most-words", "40"]
        sizes += ["--white-box", "curvature"]
        sides = [f"--{side}={file}" for side, file in write_corpora(tmp_path_factory.mktemp("corpora")).items()]
        pressroom(
            home,
            ["export", "text-detect", "--generator", "tiny-fp32", "--name", DETECTOR, *sizes],
            ["calibrate", "text-detect", "--name", DETECTOR, "--fpr", "0.1", *sides],
        )

    return shared_store(tmp_path_factory, "detector", press)


def pressroom(home: Path, *commands: list[str]) -> str:
    """What commands that must succeed print; in one process, as its imports take most of the time."""
    done = subprocess.run(
        [sys.executable, "-c", PRESSROOM, json.dumps(commands)],
        env=clean_environment(home), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_corpora(folder: Path) -> dict[str, Path]:
    """Prose as it is, and with numbers in it: the tiny model, which knows no English, tells those apart."""
    words = CORPUS.read_text("utf-8").replace("@", "").split()
    words = [word for word in words if word.isalpha()]
    texts = [" ".join(words[40 * n : 40 * n + WORDS[n // 2 % len(WORDS)]]) for n in range(TEXTS)]
    human, machine = folder / "human.jsonl", folder / "machine.txt"
    human.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[::2]), "utf-8")
    machine.write_text("\n\n".join(map(numbered, texts[1::2])), "utf-8")
    return {"human": human, "machine": machine}


@pytest.fixture(scope="session")
def store(detector_home: Path) -> Store:
    return Store(detector_home)


@pytest.fixture
def found_here(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Named generators are looked for in the detector's home."""
    monkeypatch.setattr("services.generation.pool.open_artifact", lambda name, version: store.read(name, version))
    return store


@pytest.fixture(scope="session")
def detecting(detector_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready gateway that serves the tiny model and both versions of the detector; its own API is the endpoint."""
    ports = free_ports(2)
    settings = {
        "PRESSROOM_MODELS": f"{DETECTOR}:all,tiny-fp32",
        "PRESSROOM_TEXT_DETECT_UPSTREAM_URL": f"http://127.0.0.1:{ports[0]}/v1",
        "PRESSROOM_TEXT_DETECT_UPSTREAM_MODEL": "tiny-fp32",
    }
    log = tmp_path_factory.mktemp("detecting") / "server.log"
    with running_server(detector_home, log, environment=settings, ports=(ports[0], ports[1])) as server:
        yield server
