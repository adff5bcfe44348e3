"""Scores of many texts by a stored detector, kept in out/ as they are made: an interrupted run goes on where it was.

A text's tokens score the same whatever follows them, so one pass over a long text tells the one-pass scores of its
beginnings too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.text_detection_texts import Text
from export.artifact import Artifact
from models.dna_gpt.cut import WORD
from models.dna_gpt.detector import CURVATURE, MEAN_LOG_PROB, DetectorSpec
from models.dna_gpt.one_pass import Moments, curvature, mean_log_prob
from models.dna_gpt.parts import head
from models.dna_gpt.reading import Reading
from models.dna_gpt.traits import Traits
from services.core.settings import load_settings
from services.text_detection.detection import Detection
from services.text_detection.local import Found, ask_all, with_detector

BATCH = 24  # texts between two writings
LENGTHS = (50, 100, 150, 200, 300, 400)  # words


@dataclass(frozen=True)
class Task:
    """One text, cut to so many words at most, asked about with so many regenerations."""

    text: Text
    words: int
    regenerations: int

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What tells it from other tasks."""
        return (self.text.author, self.text.id, self.words, self.regenerations)


@dataclass(frozen=True)
class Row:
    """A task's outcome.

    refused     the verdict, where nothing can be said
    beginnings  one-pass scores of its first words, by their number, for those of LENGTHS it is long enough for
    """

    id: str
    source: str
    author: str
    words: int
    regenerations: int
    refused: str | None
    traits: Traits
    scores: dict[str, float | None]
    beginnings: dict[str, dict[str, float | None]]

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Its task's."""
        return (self.author, self.id, self.words, self.regenerations)

    @property
    def is_human(self) -> bool:
        return self.author == "human"


def score(artifact: Artifact, tasks: Sequence[Task], kept: Path) -> list[Row]:
    """Every task's row, in order; asks only about those `kept` does not hold."""
    known = {row.key: row for row in _read(kept)}
    missing = [task for task in tasks if task.key not in known]
    if missing:
        kept.parent.mkdir(parents=True, exist_ok=True)
        spec = DetectorSpec.from_settings(artifact.manifest.settings)

        async def work(detection: Detection) -> None:
            done = 0
            for batch in _batches(missing):
                found = await ask_all(detection, [_cut(one) for one in batch], "white_box", batch[0].regenerations)
                _append(kept, (_row(task, one) for task, one in zip(batch, found, strict=True)))
                done += len(batch)
                print(f"scored {done} of {len(missing)} texts", flush=True)

        with_detector(spec, load_settings().values, work)
        known = {row.key: row for row in _read(kept)}
    return [known[task.key] for task in tasks]


def _batches(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Of equal numbers of regenerations."""
    for count in sorted({task.regenerations for task in tasks}):
        alike = [task for task in tasks if task.regenerations == count]
        for at in range(0, len(alike), BATCH):
            yield alike[at : at + BATCH]


def _cut(task: Task) -> str:
    return head(task.text.text, task.words)


def _row(task: Task, found: Found) -> Row:
    prepared, asked = found
    scores = {} if asked is None else asked.reading.scores()
    text = task.text
    refused = None if prepared.refused is None else str(prepared.refused)
    beginnings = {} if asked is None else _beginnings(asked.reading)
    where = (text.id, text.source, text.author, task.words, task.regenerations)
    return Row(*where, refused, prepared.traits, scores, beginnings)


def _beginnings(reading: Reading) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    parts, moments = reading.parts, reading.moments
    assert moments is not None
    ends = [match.end() for match in WORD.finditer(parts.text)]
    for length in LENGTHS:
        if length <= len(ends):
            tokens = sum(start < ends[length - 1] for start in parts.starts) - 1  # the first token has no score
            cut = Moments(moments.log_prob[:tokens], moments.mean[:tokens], moments.variance[:tokens])
            mean = mean_log_prob(cut.log_prob.tolist())
            found[str(length)] = {CURVATURE: curvature(cut), MEAN_LOG_PROB: mean}
    return found


def _append(kept: Path, rows: Iterable[Row]) -> None:
    with kept.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)


def _read(kept: Path) -> Iterator[Row]:
    for line in kept.read_text("utf-8").splitlines() if kept.is_file() else ():
        raw: dict[str, Any] = json.loads(line)
        yield Row(**{**raw, "traits": Traits(**raw["traits"])})
