"""Texts of the watermark benchmark: prompts, what people wrote, what repeats itself, and how texts get edited."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.server import ROOT

DATA = ROOT / "data"
LEAST_WORDS = 120  # of a WikiText paragraph

PROMPTS = (
    "The history of the town begins with",
    "Once upon a time, in a small village by the sea,",
    "Scientists have recently discovered that",
    "My favourite way to spend a rainy afternoon is",
    "The committee met on Tuesday to discuss",
    "In order to bake good bread, you need",
    "The old lighthouse keeper looked out at",
    "Climate change affects agriculture because",
    "When I first moved to the city,",
    "The main causes of the war were",
    "Dear editor, I am writing to you about",
    "A good teacher is someone who",
    "The train left the station just as",
    "Economists argue that rising prices",
    "The garden behind the house was full of",
    "During the nineteenth century, many painters",
)


@dataclass(frozen=True)
class Corpus:
    """Unmarked texts of one kind."""

    name: str
    texts: tuple[str, ...]


def human_corpora(paragraphs: int = 120) -> list[Corpus]:
    """What people wrote: encyclopaedia, biomedical answers, abstracts, WikiText's paragraphs, what repeats itself."""
    pairs = _lines("pairs.jsonl")
    wikipedia = [row["human"] for row in pairs if row["domain"] == "wikipedia"]
    answers = [row["human"] for row in pairs if row["domain"] != "wikipedia"]
    abstracts = [row["text"] for row in _lines("human_only.jsonl")]
    held = (DATA / "text" / "wikitext2_eval.txt").read_text(encoding="utf-8").splitlines()
    long = [line.strip() for line in held if len(line.split()) >= LEAST_WORDS]
    chosen = long[:: max(1, len(long) // paragraphs)][:paragraphs]
    return [
        Corpus("Wikipedia (data/detection)", _different(wikipedia)),
        Corpus("questions and answers (data/detection)", _different(answers)),
        Corpus("abstracts (data/detection)", _different(abstracts)),
        Corpus("WikiText-2 (data/text)", _different(chosen)),
        Corpus("lists, poems, tables, code", repetitive_texts()),
    ]


def repetitive_texts() -> tuple[str, ...]:
    """Lists, refrains, tables, boilerplate, and source files of this repository: 40 texts that repeat themselves."""
    fruit = ("apples", "pears", "plums", "figs", "grapes", "lemons", "melons", "quinces")
    towns = ("Aachen", "Bergen", "Cadiz", "Delft", "Evora", "Ferrara", "Ghent", "Halle")
    texts = []
    for at, (one, town) in enumerate(zip(fruit, towns, strict=True), 2):
        texts.append("\n".join(f"{i}. Buy {i * at} kilograms of {one} in {town}." for i in range(1, 31)))
        texts.append("\n".join(f"| {town} | {year} | {year * at % 997} | {one} |" for year in range(1950, 1990)))
        refrain = f"And the {one} fell down, and the {one} fell down, all over the fields of {town}."
        texts.append(
            "\n".join(f"Verse {i}: the {town} wind was blowing for {i} days.\n{refrain}" for i in range(1, 13))
        )
        texts.append(" ".join(f"The delegate of {town} thanked the chair for item {i} on {one}." for i in range(1, 26)))
    files = sorted((ROOT / "services" / "core").glob("*.py"))[:8]
    return (*texts, *(file.read_text(encoding="utf-8")[:1500] for file in files))


def substituted(text: str, share: float, words: Sequence[str], seed: int) -> str:
    """A part of a text's words replaced by words drawn from running text, so that common words are drawn often."""
    draw, found = random.Random(seed), text.split(" ")
    places = [at for at, word in enumerate(found) if word.strip()]
    for at in draw.sample(places, round(share * len(places))):
        found[at] = draw.choice(words)
    return " ".join(found)


def pasted(text: str, human: str) -> str:
    """A text in the middle of as many human words: half of what is read is not marked."""
    others, count = human.split(), len(text.split())
    while len(others) < count:
        others += others
    half = count // 2
    return " ".join((*others[:half], text.strip(), *others[half:count]))


def beginning(text: str, share: float) -> str:
    """The first words of a text."""
    words = text.split(" ")
    return " ".join(words[: max(1, round(share * len(words)))])


def _lines(name: str) -> list[dict[str, str]]:
    path: Path = DATA / "detection" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _different(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
