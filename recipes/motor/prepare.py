"""Everything a run reads: records of two splits, the dictionary counted on the first, histories with targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.motor.vocabulary import Ontology, Vocabulary
from recipes.motor.dictionary import build_dictionary
from recipes.motor.records import Record, read_parents, read_split
from recipes.motor.settings import Settings
from recipes.motor.targets import History, TaskPlan, candidates, history, plan


@dataclass(frozen=True)
class Prepared:
    """train and tuning hold the same subjects, in the same order, as their histories."""

    parents: dict[str, list[str]]
    dictionary: dict[str, Any]
    tasks: TaskPlan
    train: list[Record]
    tuning: list[Record]
    train_histories: list[History]
    tuning_histories: list[History]


def prepare(folder: Path, settings: Settings) -> Prepared:
    """Dictionary, tasks, rates and time bins come from the training split alone; the held-out split is not opened."""
    parents = read_parents(folder)
    ontology, train, tuning = Ontology(parents), read_split(folder, "train"), read_split(folder, "tuning")
    dictionary = build_dictionary(train, ontology, settings.dictionary)
    vocabulary = Vocabulary(dictionary, ontology)
    codes = candidates(dictionary, settings.tasks.count)
    tasks, histories = plan([history(r, vocabulary, codes, ontology) for r in train], codes, settings.tasks)
    checks = [history(r, vocabulary, tasks.codes, ontology) for r in tuning]
    return Prepared(parents, dictionary, tasks, train, tuning, histories, checks)
