"""The unfinished part of a pruning run: finished layers (or shots) on disk, and what they were made with.

    OUT/.pruning/state.json                  everything the result depends on
    OUT/.pruning/layer-00012.safetensors     a finished layer, under checkpoint names
    OUT/.pruning/layer-00012.json            what was done to its matrices
    OUT/.pruning/shot-2.safetensors          the surgeon's matrices after a shot, float32
Files appear whole or not at all, so that a run may be stopped at any moment and resumed. Resuming with other settings,
another model or other text is refused with the difference named.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from export.errors import CheckpointFileError, OptionError

NAME, STATE = ".pruning", "state.json"


class Work:
    """The work folder of an output folder."""

    def __init__(self, out: Path, *, resume: bool) -> None:
        """Raises OptionError where the output folder holds something already and `resume` is not asked for."""
        self.folder = out / NAME
        if out.exists() and not out.is_dir():
            raise OptionError(f"{out} is a file", "name a folder for --out")
        if out.is_dir() and any(out.iterdir()) and not (resume and self.folder.is_dir()):
            started = self.folder.is_dir()
            hint = "add --resume to go on with it, or name another folder" if started else "name another folder"
            raise OptionError(f"{out} is not empty", hint)
        self.folder.mkdir(parents=True, exist_ok=True)

    def discard_if_bare(self) -> None:
        """Leave no trace of a run that was refused before it finished anything."""
        finished = [path for path in self.folder.iterdir() if path.name != STATE]
        if not finished:
            self.remove()
            (self.folder.parent / "config.json").unlink(missing_ok=True)
            if not any(self.folder.parent.iterdir()):
                self.folder.parent.rmdir()

    def begin(self, settings: dict[str, Any]) -> None:
        """Record what the result depends on, or compare it with what an earlier run recorded."""
        state = self.folder / STATE
        settings = json.loads(json.dumps(settings))
        if not state.is_file():
            _write_json(state, settings)
            return
        earlier = json.loads(state.read_bytes())
        if differing := sorted(name for name in settings | earlier if settings.get(name) != earlier.get(name)):
            name = differing[0]
            message = f"{name}: this run has {settings.get(name)}, the unfinished one had {earlier.get(name)}"
            raise OptionError(message, "repeat the first command with --resume, or name another folder")

    def has(self, stem: str) -> bool:
        """Is that layer or shot finished?"""
        return self._facts(stem).is_file()

    def save(self, stem: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Keep tensors and facts; the facts file comes last and makes it count."""
        half = self.folder / f"{stem}.unfinished"
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, half)
        half.rename(self.tensors_file(stem))
        _write_json(self._facts(stem), facts)

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """What `save` kept."""
        return dict(load_file(self.tensors_file(stem)))

    def tensor(self, stem: str, name: str) -> Tensor:
        """One of them."""
        with safe_open(self.tensors_file(stem), framework="pt") as file:
            found: Tensor = file.get_tensor(name)
        return found

    def names(self, stem: str) -> list[str]:
        """Names of the tensors `save` kept."""
        with safe_open(self.tensors_file(stem), framework="pt") as file:
            return list(file.keys())

    def facts(self, stem: str) -> dict[str, Any]:
        """What `save` kept."""
        found: dict[str, Any] = json.loads(self._facts(stem).read_bytes())
        return found

    def remove(self) -> None:
        """All of it; the output folder is complete without."""
        shutil.rmtree(self.folder)

    def tensors_file(self, stem: str) -> Path:
        """Where they lie."""
        return self.folder / f"{stem}.safetensors"

    def _facts(self, stem: str) -> Path:
        return self.folder / f"{stem}.json"


class WorkLayers:
    """Finished layers as named tensors; the last one read stays in memory."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._open: tuple[str, dict[str, Tensor]] = ("", {})

    def read(self, name: str) -> Tensor:
        """Tensor `model.layers.<i>.<rest>`."""
        stem = layer_stem(int(name.split(".")[2]))
        if self._open[0] != stem:
            self._open = (stem, self.work.tensors(stem))
        if name not in self._open[1]:
            raise CheckpointFileError(f"{stem}: tensor {name} is missing", "prune again into an empty folder")
        return self._open[1][name]


def layer_stem(index: int) -> str:
    """Name of a layer's files."""
    return f"layer-{index:05d}"


def _write_json(path: Path, value: Any) -> None:
    half = path.with_suffix(".json-unfinished")
    half.write_text(json.dumps(value, indent=1) + "\n")
    half.rename(path)
