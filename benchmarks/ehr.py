"""How well the bundled MOTOR checkpoint and its ten adapters rank held-out patients, beside Cox regression and age.

    python -m benchmarks.ehr                 prints the table
    python -m benchmarks.ehr --write-docs    also writes docs/ehr-benchmarks.md, its calibration plot, and what was
                                             found into the adapters' files

Nothing is fitted on the held-out split: the network and dictionary are the checkpoint's, adapters and Cox models come
from the training split, their penalties from the tuning split.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from benchmarks.command import run
from benchmarks.ehr_baselines import columns, counts, fit_cox
from benchmarks.ehr_pages import write_page
from benchmarks.ehr_scores import Calibration, Predictor, Score, TaskScores, calibration, capped, interval, task_scores
from export.ehr_source import EhrSource, read_source
from models.motor import adapter
from models.motor.checkpoint import translate
from models.motor.network import Motor, build
from models.motor.task_file import TaskFile, TaskMetric, read_task_file
from models.motor.vocabulary import Ontology, Vocabulary
from recipes.motor.features import binned_features
from recipes.motor.labels import Labels, Question, labels, questions
from recipes.motor.records import Record, read_split
from recipes.motor.settings import Settings, read_settings

ROOT = Path(__file__).parents[1]
CHECKPOINT, DATA = ROOT / "data/checkpoints/motor_synthea", ROOT / "data/ehr"
RECIPE = ROOT / "recipes/motor/synthetic_ehr.toml"
SPLITS = ("train", "tuning", "held_out")
RESAMPLES, SEED = 300, 20240101
_ONE_BIN = np.zeros(1)


@dataclass(frozen=True)
class Evaluation:
    """tasks: scores by task; means: mean C over the tasks by predictor; gain: mean C of the adapters less Cox's."""

    tasks: dict[str, TaskScores]
    calibrations: dict[str, Calibration]
    means: dict[str, Score]
    gain: Score
    cpu_seconds: float


@dataclass(frozen=True)
class Cohort:
    """Records of the three splits and the questions asked of them."""

    records: Mapping[str, list[Record]]
    asked: Mapping[str, list[Question]]
    ontology: Ontology
    vocabulary: Vocabulary

    def labels(self, split: str, code: str) -> Labels:
        return labels(self.records[split], self.asked[split], code, self.ontology)


def main(
    checkpoint: Annotated[Path, typer.Option(help="Folder of the network and its adapters.")] = CHECKPOINT,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap samples of an interval.")] = RESAMPLES,
    write_docs: Annotated[bool, typer.Option(help="Write the page, its plot and the adapters' figures.")] = False,
) -> None:
    """Score the checkpoint, Cox regression and age on the held-out split."""
    torch.set_num_threads(1)
    settings, source = read_settings(RECIPE), read_source(checkpoint)
    files = read_adapters(checkpoint)
    found = evaluate(settings, source, files, resamples)
    print_table(found)
    if write_docs:
        for name, file in files.items():
            path = checkpoint / f"{name}.adapter.json"
            path.write_bytes(described(file, found.tasks[name], found.calibrations[name]).dump())
        write_page(found.tasks, found.calibrations, found.means, found.gain, resamples)


def read_adapters(folder: Path) -> dict[str, TaskFile]:
    """Task -> adapter, in the order of the recipe's settings."""
    tasks = read_settings(RECIPE).adapters.tasks
    return {name: read_task_file((folder / f"{name}.adapter.json").read_bytes()) for name in tasks}


def evaluate(settings: Settings, source: EhrSource, files: Mapping[str, TaskFile], resamples: int) -> Evaluation:
    """Every predictor on every task."""
    began, cohort = time.process_time(), read_cohort(settings, source)
    network = build(source.config)
    network.load_state_dict(translate(source.state, source.config).state)
    subjects = np.array([question.record for question in cohort.asked["held_out"]])
    random, people = np.random.default_rng(SEED), len(cohort.records["held_out"])
    draws = [random.integers(people, size=people) for _ in range(resamples)]
    predict = Predictors(settings, source, cohort, network)
    tasks, calibrations = {}, {}
    for name, file in files.items():
        code = settings.adapters.tasks[name]
        train, held = cohort.labels("train", code), cohort.labels("held_out", code)
        tasks[name] = task_scores(capped(held, train), subjects, predict.of(code, file), draws)
        calibrations[name] = calibration(held, train, predict.adapter(file))
        print(f"{name}: {tasks[name].scores['adapter']}", flush=True)
    names = tasks["death"].scores.keys()
    stacked = {name: np.mean([one.resampled[name] for one in tasks.values()], axis=0) for name in names}
    means = {
        name: interval(float(np.mean([one.scores[name].value for one in tasks.values()])), stacked[name])
        for name in names
    }
    gain = interval(means["adapter"].value - means["Cox"].value, stacked["adapter"] - stacked["Cox"])
    return Evaluation(tasks, calibrations, means, gain, time.process_time() - began)


def read_cohort(settings: Settings, source: EhrSource) -> Cohort:
    ontology = Ontology(source.parents)
    records = {split: read_split(DATA, split) for split in SPLITS}
    asked = {split: questions(own, settings.adapters, settings.training.seed) for split, own in records.items()}
    return Cohort(records, asked, ontology, Vocabulary(source.dictionary, ontology))


class Predictors:
    """Held-out hazards of each predictor; features and counts are made once for all tasks."""

    def __init__(self, settings: Settings, source: EhrSource, cohort: Cohort, network: Motor) -> None:
        self.source, self.cohort, self.network = source, cohort, network
        self.starts = np.array(source.config.time_bins)
        held = cohort.records["held_out"], cohort.asked["held_out"]
        self.features = binned_features(network, cohort.vocabulary, *held)
        size = source.config.vocab_size
        known = {split: counts(cohort.vocabulary, size, cohort.records[split], cohort.asked[split]) for split in SPLITS}
        chosen = columns(known["train"])
        self.columns = {split: chosen.of(own) for split, own in known.items()}
        self.age = known["held_out"].age

    def of(self, code: str, file: TaskFile) -> dict[str, Predictor]:
        return {
            "adapter": self.adapter(file),
            "pretrained head": self.head(code),
            "Cox": self.cox(code),
            "age": Predictor(self.age[:, None], _ONE_BIN),
        }

    def adapter(self, file: TaskFile) -> Predictor:
        return Predictor(adapter.with_one(self.features) @ np.array(file.vector), self.starts)

    def head(self, code: str) -> Predictor:
        """What pretraining alone says of the code, or of the nearest code above it that it was trained on."""
        above = sorted(self.cohort.ontology.ancestors(code), key=lambda one: len(self.cohort.ontology.ancestors(one)))
        known = [one for one in (code, *reversed(above)) if one in self.source.config.tasks]
        task, place = self.network.head.task, self.source.config.tasks.index(known[0])
        vector = np.append(task.weight[place].double().numpy(), float(task.bias[place]))
        return Predictor(adapter.with_one(self.features) @ vector, self.starts)

    def cox(self, code: str) -> Predictor:
        train, tuning = (self.cohort.labels(split, code) for split in ("train", "tuning"))
        fitted = fit_cox(self.columns["train"], train, self.columns["tuning"], tuning)
        return Predictor(fitted.log2_hazard(self.columns["held_out"]), _ONE_BIN)


def described(file: TaskFile, scores: TaskScores, found: Calibration) -> TaskFile:
    """The adapter with what was measured about it."""
    predicted, observed = found.overall
    words = (
        f"On {scores.questions} held-out questions of 216 synthetic patients, the risk within "
        f"{found.days / 365.25:.1f} years was predicted as {predicted:.2f} on average and observed as "
        f"{observed:.2f} (Kaplan-Meier). "
        "Synthetic data: check it on records of your own before use."
    )
    score = scores.scores["adapter"]
    metric = TaskMetric(
        name="time-dependent C", value=score.value, data="data/ehr", split="held_out", low=score.low, high=score.high
    )
    kept = tuple(one for one in file.metrics if one.split != "held_out")
    return replace(file, calibration=words, metrics=(*kept, metric))


def print_table(found: Evaluation) -> None:
    names = list(found.means)
    print(f"{'task':26}{'questions':>10}{'events':>8}  " + "".join(f"{name:>26}" for name in names))
    for task, one in found.tasks.items():
        cells = "".join(f"{one.scores[name]!s:>26}" for name in names)
        print(f"{task:26}{one.questions:>10}{one.events:>8}  {cells}")
    print(f"{'mean':46}" + "".join(f"{found.means[name]!s:>26}" for name in names))
    print(f"adapters less Cox: {found.gain}; CPU seconds: {found.cpu_seconds:.0f}")


if __name__ == "__main__":
    run(main, "python -m benchmarks.ehr --write-docs")
