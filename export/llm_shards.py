"""safetensors files written tensor by tensor: memory is one tensor, however large the file.

    8 bytes   length of the header, little endian
    header    JSON: name -> dtype, shape, [begin, end) among the data; padded with spaces to a multiple of 8
    data      the tensors one after another
Tensors are named with the safetensors file they lie in, so that shapes are known before anything is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from export.llm_folder import INDEX

METADATA = {"format": "pt"}  # transformers refuses files without
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class Placed:
    """A tensor that waits in a file."""

    name: str
    file: Path

    def describe(self) -> tuple[str, list[int]]:
        """dtype in safetensors' word, shape."""
        with safe_open(self.file, framework="pt") as opened:
            part = opened.get_slice(self.name)
            return str(part.get_dtype()), list(part.get_shape())

    def read(self) -> memoryview:
        """Its bytes."""
        with safe_open(self.file, framework="pt") as opened:
            return memoryview(opened.get_tensor(self.name).contiguous().flatten().view(torch.uint8).numpy())


def write_shards(tensors: Iterable[Placed], out: Path, shard_bytes: int) -> None:
    """model.safetensors, or shards with their index. Files appear whole or not at all."""
    shards = _dealt([(one, *one.describe()) for one in tensors], shard_bytes)
    last = len(shards)
    names = [
        f"model-{n:05d}-of-{last:05d}.safetensors" if last > 1 else "model.safetensors" for n in range(1, last + 1)
    ]
    for file, shard in zip(names, shards, strict=True):
        half = out / f"{file}.unfinished"
        _write(half, shard)
        half.rename(out / file)
    if last > 1:
        total = sum(_size(shape, dtype) for shard in shards for _, dtype, shape in shard)
        weight_map = {one.name: file for file, shard in zip(names, shards, strict=True) for one, _, _ in shard}
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (out / INDEX).write_text(json.dumps(index, indent=2) + "\n")


Described = tuple[Placed, str, list[int]]


def _dealt(tensors: list[Described], shard_bytes: int) -> list[list[Described]]:
    """In order; a shard takes what fits, and at least one."""
    shards: list[list[Described]] = [[]]
    held = 0
    for one in tensors:
        size = _size(one[2], one[1])
        if shards[-1] and held + size > shard_bytes:
            shards.append([])
            held = 0
        shards[-1].append(one)
        held += size
    return shards


def _write(path: Path, shard: list[Described]) -> None:
    header: dict[str, Any] = {"__metadata__": METADATA}
    begin = 0
    for one, dtype, shape in shard:
        end = begin + _size(shape, dtype)
        header[one.name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for one, _, _ in shard:
            file.write(one.read())


def _size(shape: list[int], dtype: str) -> int:
    return math.prod(shape) * BYTES[dtype]
