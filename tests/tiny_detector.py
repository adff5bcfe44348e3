"""A detector of the tiny language model's texts, by the command line: version 1 has no thresholds, version 2 has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from stores import run_press

DETECTOR = "tiny-text"
ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "data" / "text" / "wikitext2_calibration.txt"
COMMANDS = """
import json
from pressroom.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
"""
WORDS, TEXTS = (24, 28, 32, 36), 40


def press_detector(home: Path, tiny_llm_home: Path, corpora: Path) -> None:
    """Fill a BENTOML_HOME with tiny-fp32 and the detector. corpora: an empty folder."""
    shutil.copytree(tiny_llm_home / "models" / "tiny-fp32", home / "models" / "tiny-fp32")
    sizes = ["--fewest-words", "20", "--fewest-distinct", "10", "--regenerations", "2", "--most-words", "40"]
    sizes += ["--white-box", "curvature"]
    sides = [f"--{side}={file}" for side, file in write_corpora(corpora).items()]
    export = ["export", "text-detect", "--generator", "tiny-fp32", "--name", DETECTOR, *sizes]
    calibrate = ["calibrate", "text-detect", "--name", DETECTOR, "--fpr", "0.1", *sides]
    run_press(home, COMMANDS, json.dumps([export, calibrate]))  # in one process: its imports take most of the time


def write_corpora(folder: Path) -> dict[str, Path]:
    """Prose as it is, and with numbers in it: the tiny model, which knows no English, tells those apart."""
    words = CORPUS.read_text("utf-8").replace("@", "").split()
    words = [word for word in words if word.isalpha()]
    texts = [" ".join(words[40 * n : 40 * n + WORDS[n // 2 % len(WORDS)]]) for n in range(TEXTS)]
    human, machine = folder / "human.jsonl", folder / "machine.txt"
    human.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[::2]), "utf-8")
    machine.write_text("\n\n".join(map(numbered, texts[1::2])), "utf-8")
    return {"human": human, "machine": machine}


def numbered(text: str) -> str:
    """The text with numbers for its longer words: a machine's, to the detector of the tests."""
    return " ".join(str(place) if len(word) > 4 else word for place, word in enumerate(text.split()))
