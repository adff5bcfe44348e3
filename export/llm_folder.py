"""A language model as Hugging Face lays it out: config.json, safetensors (one file or shards with an index), tokenizer.

Tensors are read one at a time and only when asked for, so that a model larger than memory can be walked through.
Pickled weights are never opened.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from export.artifact import sha256_file
from export.errors import CheckpointFileError

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"}  # never copied beside new ones
NOT_COPIED = {INDEX, CONFIG, "receipt.json", "README.md", "pytorch_model.bin.index.json"}


class Tensors(Protocol):
    """Named tensors, read one at a time."""

    def read(self, name: str) -> Tensor:
        """Raises CheckpointFileError where there is none of that name."""


@dataclass(frozen=True)
class ModelFolder:
    """A readable folder; `source` is how the user named the model."""

    path: Path
    source: str

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json."""
        try:
            found = json.loads((self.path / CONFIG).read_bytes())
        except (OSError, ValueError) as error:
            hint = "give a folder with config.json and *.safetensors, a .gguf file, or the word smollm2"
            raise CheckpointFileError(f"{self.path}: {CONFIG} is missing or unreadable ({error})", hint) from error
        if "quantization_config" in found:
            method = found["quantization_config"].get("quant_method", "unknown")
            hint = "give the full-precision checkpoint it was made from"
            raise CheckpointFileError(f"{self.path}: the weights are quantised ({method})", hint)
        config: dict[str, Any] = found
        return config

    @cached_property
    def files(self) -> dict[str, str]:
        """Tensor name -> file it lies in."""
        index = self.path / INDEX
        if index.is_file():
            mapped: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
            return mapped
        found = sorted(self.path.glob("*.safetensors"))
        if not found:
            pickled = sorted(file.name for file in self.path.iterdir() if file.suffix in {".bin", ".pt", ".pth"})
            what = f"only pickled weights ({pickled[0]})" if pickled else "no weights"
            hint = "save it with safe_serialization, or convert it: weights are read from safetensors only"
            raise CheckpointFileError(f"{self.path}: {what}, expected *.safetensors", hint)
        return {name: file.name for file in found for name in _names(file)}

    def read(self, name: str) -> Tensor:
        """One tensor as stored."""
        if name not in self.files:
            raise CheckpointFileError(f"{self.path}: tensor {name} is missing", "the checkpoint is not complete")
        path = self.path / self.files[name]
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise CheckpointFileError(f"{path.name} is not readable ({error})", "copy it again") from error
        return tensor

    @property
    def weight_files(self) -> list[Path]:
        """Files that hold tensors."""
        return [self.path / name for name in sorted(set(self.files.values()))]

    def weight_bytes(self) -> int:
        """Size of the weights on disk."""
        return sum(file.stat().st_size for file in self.weight_files)

    def digests(self) -> dict[str, str]:
        """sha256 of every file with tensors."""
        return {file.name: sha256_file(file) for file in self.weight_files}

    def copy_beside(self, target: Path) -> None:
        """Copy tokenizer, chat template, generation settings: all small files that are neither weights nor ours."""
        for file in sorted(self.path.iterdir()):
            if file.is_file() and file.suffix not in WEIGHTS and file.name not in NOT_COPIED:
                shutil.copyfile(file, target / file.name)


def _names(file: Path) -> list[str]:
    try:
        with safe_open(file, framework="pt") as opened:
            return list(opened.keys())
    except (OSError, SafetensorError) as error:
        raise CheckpointFileError(
            f"{file.name} is not a readable safetensors file ({error})", "copy it again"
        ) from error
