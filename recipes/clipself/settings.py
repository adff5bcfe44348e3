"""A run's settings: one TOML file with the sections data and training, checked before anything is computed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

Regions = Literal["proposals", "patches", "both"]
Section = TypeVar("Section")
BOUNDS: dict[str, tuple[float, float]] = {
    "image_size": (16, 4096),
    "steps": (1, 10_000_000),
    "batch_size": (1, 4096),
    "boxes_per_image": (1, 1000),
    "grid_most": (1, 32),
    "learning_rate": (1e-9, 1.0),
    "warmup_steps": (0, 1_000_000),
    "weight_decay": (0.0, 10.0),
    "clip_norm": (1e-6, 1e6),
    "kept": (0.0, 1.0),
    "save_every": (1, 1_000_000),
    "seed": (0, 2**32 - 1),
}


class SettingsError(ValueError):
    """A setting cannot be used; the message names it, what came and what was expected."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """What is trained on, and what the result is judged by.

    checkpoint   official checkpoint of the CLIP model before CLIPSelf: teacher, and where the student starts
    config       JSON: its configuration, labels and prompt templates
    images       folder of training images; None: scenes are drawn of `artwork` over `photographs`
    scenes       folder of labelled scenes the result is measured on, never trained on; None: not measured
    """

    checkpoint: Path
    config: Path
    images: Path | None = None
    artwork: Path | None = None
    photographs: Path | None = None
    scenes: Path | None = None

    def __post_init__(self) -> None:
        if (self.images is None) == (self.artwork is None):
            raise SettingsError("data: name either images, a folder, or artwork, a sheet to draw scenes of")


@dataclass(frozen=True, kw_only=True)
class Training:
    """One run of self-distillation.

    image_size       side of the student's square input, pixels; a multiple of the patch size
    steps            optimizer steps
    batch_size       images a step
    regions          proposals: boxes that come with the images; patches: a random grid of 1 to `grid_most` rows and
                     columns; both: one or the other, image by image
    boxes_per_image  at most so many regions of an image, drawn at random
    learning_rate    after warm-up; falls to 0 along a cosine
    warmup_steps     steps of linear rise from 0
    weight_decay     on matrices, not on biases and norms (AdamW)
    clip_norm        longest gradient of all weights together
    kept             share of the original weights in the result; 0: the student alone
    save_every       steps between two states a run can be resumed from
    seed             of everything drawn at random
    """

    image_size: int
    steps: int
    batch_size: int = 16
    regions: Regions = "both"
    boxes_per_image: int = 8
    grid_most: int = 6
    learning_rate: float = 1e-3
    warmup_steps: int = 50
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    kept: float = 0.0
    save_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(f"training.{name}: got {value}, expected {low:g} to {high:g}")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """name: of the artifact in the export command the run ends with."""

    name: str
    data: Data
    training: Training


def read_settings(path: Path) -> Settings:
    """The settings of a TOML file; paths are relative to where the command is run. Raises SettingsError."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path.name} cannot be read: {error}") from None
    if unknown := sorted(found.keys() - {"name", "data", "training"}):
        raise SettingsError(f"{unknown[0]}: unknown; expected name, [data] and [training]")
    data = {name: _path(name, value) for name, value in _table(found, "data").items()}
    training = _table(found, "training")
    for name, value in training.items():
        _check_kind(name, value)
    return Settings(
        name=str(found.get("name", path.stem)),
        data=_section(Data, "data", data),
        training=_section(Training, "training", training),
    )


def _table(found: dict[str, Any], name: str) -> dict[str, Any]:
    table = found.get(name)
    if not isinstance(table, dict):
        raise SettingsError(f"[{name}]: expected this section")
    return table


def _section(kind: type[Section], name: str, values: dict[str, Any]) -> Section:
    known = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    if unknown := sorted(values.keys() - set(known)):
        raise SettingsError(f"{name}.{unknown[0]}: unknown; expected {', '.join(known)}")
    try:
        return kind(**values)
    except TypeError as error:
        raise SettingsError(f"[{name}]: {str(error).partition('() ')[2]}") from None


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str):
        raise SettingsError(f"data.{name}: got {value!r}, expected a path")
    path = Path(value)
    if not path.exists():
        raise SettingsError(f"data.{name}: there is no {value}")
    return path


def _check_kind(name: str, value: object) -> None:
    if name == "regions":
        if value not in get_args(Regions):
            raise SettingsError(f"training.regions: got {value!r}, expected {', '.join(get_args(Regions))}")
        return
    fraction = isinstance(BOUNDS.get(name, (0, 0))[0], float)
    if isinstance(value, bool) or not isinstance(value, (int, float) if fraction else int):
        raise SettingsError(f"training.{name}: got {value!r}, expected a {'number' if fraction else 'whole number'}")
