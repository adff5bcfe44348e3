"""Accuracy of text detection: calibrated on one half of the texts, measured on the other; the tables of a page.

    pressroom export llm smollm2 --name smollm2 --evaluation-windows 6 --tokens 256
    pressroom export text-detect --generator smollm2 --name smollm2-text
    python -m benchmarks.text_detection --write-docs

SmolLM2's texts and all scores are kept in out/text-detection: without them the run takes an hour of one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.command import ALL, chosen, run
from benchmarks.report import DOCS, machine_lines, replace_measured
from benchmarks.server import ROOT
from benchmarks.text_detection_scores import Row, Task, score
from benchmarks.text_detection_tables import Tables
from benchmarks.text_detection_texts import Text, other_models, people, smollm2
from export.artifact import open_artifact
from models.dna_gpt.detector import DetectorSpec

OUT = ROOT / "out" / "text-detection"
PAGE = DOCS / "text-detection.md"
WHOLE = 400  # words of a text that one pass reads
ASKED_WORDS, REGENERATIONS = 100, 5  # of the texts that are regenerated, which costs most
ASKED_ABOUT = ("human", "smollm2")
PARTS = ("people", "smollm2", "others")


@dataclass(frozen=True)
class Measured:
    """Rows of one pass over whole texts, and of regenerations of the first words of ASKED_ABOUT's."""

    once: list[Row]
    asked: list[Row]


def measure(detector: str, parts: Sequence[str]) -> Measured:
    """Score everything. parts: of PARTS, which texts."""
    artifact = open_artifact(detector)
    spec = DetectorSpec.from_settings(artifact.manifest.settings)
    texts = _texts(spec, parts)
    kept = OUT / f"scores-{artifact.digest[7:19]}.jsonl"
    asked = [text for text in texts if text.author in ASKED_ABOUT]
    return Measured(
        once=score(artifact, [Task(text, WHOLE, 0) for text in texts], kept),
        asked=score(artifact, [Task(text, ASKED_WORDS, REGENERATIONS) for text in asked], kept),
    )


def _texts(spec: DetectorSpec, parts: Sequence[str]) -> list[Text]:
    generator = open_artifact(spec.generator.name, spec.generator.version)
    found: list[Text] = []
    if "people" in parts:
        found += people()
    if "smollm2" in parts:
        found += smollm2(generator, OUT / f"smollm2-{generator.digest[7:19]}.jsonl")
    if "others" in parts:
        found += other_models()
    return found


def main(
    detector: Annotated[str, typer.Option(help="NAME or NAME:VERSION.")] = "smollm2-text",
    parts: Annotated[str, typer.Option(help=f"Texts to score, of {', '.join(PARTS)}; some: no tables.")] = ALL,
    write_docs: Annotated[bool, typer.Option(help=f"Write the measured part of docs/{PAGE.name}.")] = False,
) -> None:
    """Measure, print, and write the page's measured part if asked."""
    wanted = chosen(parts, PARTS, "--parts")
    found = measure(detector, wanted)
    if len(wanted) < len(PARTS):
        return
    tables = Tables(found.once, found.asked).everything()
    print(tables)
    if write_docs:
        replace_measured(Path(PAGE), "detection", f"\n{tables}\n\n### Machine\n\n{machine_lines()}\n")


if __name__ == "__main__":
    run(main, "python -m benchmarks.text_detection --write-docs")
