"""A run's settings, read from one TOML file; a missing or unknown name is refused with both spelled out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

Section = TypeVar("Section")


class SettingsError(ValueError):
    """The file does not say what a run needs; the message names the section and the field."""


@dataclass(frozen=True, kw_only=True)
class Dictionary:
    """vocab_size: most tokens kept; numeric_bins: bins all numeric values share, as many values in each."""

    vocab_size: int
    numeric_bins: int


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What pretraining predicts: at most `count` codes that lie ahead of at least `least_share` of the positions."""

    count: int
    bins: int
    rank: int
    least_share: float


@dataclass(frozen=True, kw_only=True)
class Network:
    """Sizes under their published names."""

    hidden_size: int
    intermediate_size: int
    n_heads: int
    n_layers: int
    attention_width: int
    hidden_act: str


@dataclass(frozen=True, kw_only=True)
class Training:
    """rows x row_length positions a step; hidden_share: positions hidden from the network at random."""

    seed: int
    steps: int
    rows: int
    row_length: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    clip_norm: float
    hidden_share: float
    evaluate_every: int


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """Task name -> code; an event of the code or of one below it counts. Ages in years."""

    labels_a_subject: int
    youngest_age: float
    tasks: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Settings:
    name: str
    dictionary: Dictionary
    tasks: Tasks
    network: Network
    training: Training
    adapters: Adapters


def read_settings(path: Path) -> Settings:
    """Raises SettingsError naming what is missing or unknown."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    _same_names("file", document, {field.name for field in fields(Settings)})
    return Settings(
        name=document["name"],
        dictionary=_section(Dictionary, "dictionary", document["dictionary"]),
        tasks=_section(Tasks, "tasks", document["tasks"]),
        network=_section(Network, "network", document["network"]),
        training=_section(Training, "training", document["training"]),
        adapters=_section(Adapters, "adapters", document["adapters"]),
    )


def _section(kind: type[Section], name: str, found: Mapping[str, Any]) -> Section:
    _same_names(name, found, {field.name for field in fields(kind)})  # type: ignore[arg-type]
    return kind(**found)


def _same_names(where: str, found: Mapping[str, Any], expected: set[str]) -> None:
    missing, unknown = expected - found.keys(), found.keys() - expected
    if missing or unknown:
        raise SettingsError(f"{where}: missing {sorted(missing) or 'nothing'}, unknown {sorted(unknown) or 'nothing'}")
