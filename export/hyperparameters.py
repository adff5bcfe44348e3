"""Hyper-parameters a checkpoint does not carry, gathered from up to four places under their official names.

    1. flags             --set d_model=256
    2. a JSON file       --config FILE: a mapping, or a mapping under "config" as beside the bundled checkpoints
    3. the official settings directory's name, from the checkpoint's own path or --settings
    4. the shapes of the checkpoint's tensors, and the number of columns of the training data

An earlier source wins over a later one, except that nothing can win over the tensors: a stated size which contradicts
them is refused. What no source names gets the official program's default. The origin of every value is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.checkpoints import Checkpoint
from export.errors import CheckpointFileError, HyperParameterError, OptionError
from models.forecasting.architecture import Architecture, ConfigError, ForecasterConfig
from models.statedict import CheckpointError

FLAG, DIRECTORY, TENSORS, DATA, DEFAULT = "flag", "directory name", "tensor shapes", "data columns", "default"
HINT = "state it with --set NAME=VALUE, --config FILE.json, or --settings OFFICIAL_DIRECTORY_NAME"


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What the caller said about hyper-parameters: `NAME=VALUE` flags, a JSON file, an official directory name."""

    flags: Sequence[str] = ()
    config: Path | None = None
    settings: str | None = None


@dataclass(frozen=True)
class HyperParameters:
    """A checked configuration, its official mapping, and where each value came from.

    stated  everything the sources said, also options that have no effect on the network (the calendar's `freq`)
    """

    config: ForecasterConfig
    official: dict[str, Any]
    origins: dict[str, str]
    stated: dict[str, Any]


def gather(
    architecture: Architecture,
    checkpoint: Checkpoint,
    stated: Stated,
    columns: int | None = None,
    known: Mapping[str, Mapping[str, Any]] | None = None,
) -> HyperParameters:
    """Join all sources into one configuration. Raises HyperParameterError naming value, source and remedy.

    columns  number of columns of the training data, used for `enc_in` if nothing else states it
    known    further sources by name, weaker than what was stated: LIFT's backbone
    """
    shapes = _from_tensors(architecture, checkpoint)
    sources = [*_stated_sources(architecture, checkpoint.path, stated), *(known or {}).items(), (TENSORS, shapes)]
    if columns is not None:
        sources.append((DATA, {"enc_in": columns}))
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for label, mapping in reversed(sources):
        for name, value in mapping.items():
            values[name], origins[name] = value, label
    _check_against_tensors(values, origins, shapes)
    try:
        config = architecture.parse_config(values)
    except ConfigError as error:
        raise HyperParameterError(f"{architecture.name}: {error}", HINT) from None
    official = config.official()
    return HyperParameters(config, official, {name: origins.get(name, DEFAULT) for name in official}, values)


def parse_flag(text: str) -> tuple[str, Any]:
    """`d_model=256` -> ("d_model", 256). Numbers, true/false and null are read as such, everything else is text.

    Raises OptionError without an equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise OptionError(f"--set {text!r} is not NAME=VALUE", "for example --set d_model=256")
    try:
        return name.strip(), json.loads(value.lower() if value in ("True", "False") else value)
    except ValueError:
        return name.strip(), value


def _stated_sources(architecture: Architecture, path: Path, stated: Stated) -> list[tuple[str, Mapping[str, Any]]]:
    """The explicit sources, strongest first."""
    sources: list[tuple[str, Mapping[str, Any]]] = [(FLAG, dict(map(parse_flag, stated.flags)))]
    if stated.config is not None:
        sources.append((stated.config.name, _read_config(stated.config)))
    sources.append((DIRECTORY, _from_directory(architecture, path, stated.settings)))
    return sources


def _from_tensors(architecture: Architecture, checkpoint: Checkpoint) -> Mapping[str, Any]:
    try:
        return architecture.config_from_tensors(checkpoint.state)
    except CheckpointError as error:
        raise CheckpointFileError(f"{checkpoint.path.name}: {'; '.join(error.problems[:5])}", error.hint) from None


def _from_directory(architecture: Architecture, path: Path, settings: str | None) -> Mapping[str, Any]:
    """Read the named directory, or the checkpoint's own if its name happens to be an official one."""
    try:
        return architecture.config_from_directory(str(path.resolve().parent) if settings is None else settings)
    except ConfigError as error:
        if settings is None:
            return {}
        raise OptionError(
            f"--settings: {error}", "give the official directory's name unchanged, or use --set and --config"
        ) from None


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise HyperParameterError(f"--config {path.name} cannot be read: {error.strerror}", "check the path") from None
    except ValueError as error:
        raise HyperParameterError(f"--config {path.name} is not JSON: {error}") from None
    inner = document.get("config", document) if isinstance(document, dict) else document
    if not isinstance(inner, dict):
        raise HyperParameterError(
            f"--config {path.name} holds no mapping of hyper-parameters", 'for example {"seq_len": 96, "pred_len": 96}'
        )
    return inner


def _check_against_tensors(values: Mapping[str, Any], origins: Mapping[str, str], shapes: Mapping[str, Any]) -> None:
    for name, seen in shapes.items():
        if not _equal(values[name], seen):
            raise HyperParameterError(
                f"{name}: {values[name]!r} ({origins[name]}) contradicts the checkpoint's tensors, which have {seen!r}",
                f"correct {name}, or leave it out: the tensors tell it; or choose the checkpoint that goes with it",
            )


def _equal(stated: Any, seen: Any) -> bool:
    """Equality that does not mind how a number was written: 96, 96.0 and "96" are one."""
    try:
        return float(stated) == float(seen)
    except (TypeError, ValueError):
        return str(stated) == str(seen)
