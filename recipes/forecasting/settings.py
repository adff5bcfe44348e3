"""A training run's settings: one TOML file with the sections data, network and training."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

Schedule = Literal["constant", "halving", "cosine"]
Loss = Literal["mse", "decaying-mae"]
Section = TypeVar("Section")


class SettingsError(ValueError):
    """The file cannot be used; the message says which name of which section, and what was expected."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """csv: in the format of the ETT files; split: as `pressroom export` names them, with test rows."""

    csv: Path
    split: str


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the weights are found.

    schedule        halving: the rate is halved after every epoch; cosine: down to 0 at the last step
    loss            decaying-mae: absolute errors weighted 1 / sqrt(step ahead), as CARD is trained
    patience        epochs without a better validation loss before the run ends
    drop_columns    share of batches in which a random part of the columns is blanked out and not learnt from (ARM)
    backbone_rate   LIFT: the backbone's learning rate as a multiple of the others'; 0 leaves it as it is
    epoch_steps     at most so many steps make an epoch; None: all windows once
    """

    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Schedule
    patience: int
    seed: int
    loss: Loss = "mse"
    dropout: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    drop_columns: float = 0.0
    backbone_rate: float = 1.0
    epoch_steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to train.

    architecture       as in the registry
    network            official hyper-parameters
    backbone           LIFT: the trained checkpoint it is put around
    backbone_artifact  LIFT: the stored artifact of that checkpoint, which the printed export command refers to
    """

    name: str
    architecture: str
    data: Data
    training: Training
    network: dict[str, Any] = field(default_factory=dict)
    backbone: Path | None = None
    backbone_artifact: str | None = None


def read_settings(path: Path) -> Settings:
    """Paths in the file are relative to it. Raises SettingsError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path.name} cannot be read: {error}") from None
    document["data"] = _section(Data, "data", document.get("data", {}), path.parent)
    document["training"] = _section(Training, "training", document.get("training", {}), path.parent)
    return _section(Settings, path.name, document, path.parent)


def _section(kind: type[Section], where: str, found: dict[str, Any], folder: Path) -> Section:
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(found.keys() - known):
        raise SettingsError(f"{where}: {unknown[0]!r} is not known; known are {', '.join(sorted(known))}")
    placed: dict[str, Any] = {name: folder / found[name] for name in ("csv", "backbone") if name in found}
    try:
        return kind(**(found | placed))
    except TypeError as error:
        missing = str(error).partition(": ")[2]
        raise SettingsError(f"{where}: missing {missing}") from None
