"""Finished layers -> an ordinary Hugging Face folder: safetensors, config.json, tokenizer. No sparsity metadata.

A `sparsity_config` in config.json makes loaders look for kernels that stock engines no longer have, so none is
written; permutations for kernels that want them lie in a sub-folder that loaders do not look into.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from export.llm_folder import CONFIG, INDEX, ModelFolder
from export.prune_layers import ORDER, LayerRun
from export.prune_work import Work, layer_stem

PERMUTATIONS = Path("pruning") / "permutations.safetensors"


def write_config(source: ModelFolder, folder: Path, changes: dict[str, Any]) -> None:
    """config.json of the result: the source's, with changed widths only."""
    (folder / CONFIG).write_text(json.dumps(source.config | changes, indent=2, ensure_ascii=False) + "\n")


def write_folder(run: LayerRun, out: Path, shard_bytes: int) -> None:
    """Everything but config.json, which `write_config` wrote before the first layer; at most one shard in memory."""
    _forget_stopped(out)
    run.source.copy_beside(out)
    _write_shards(_tensors(run), out, shard_bytes)
    if orders := dict(_orders(run.work, len(run.dense.layers))):
        (out / PERMUTATIONS).parent.mkdir(exist_ok=True)
        save_file(orders, out / PERMUTATIONS)


def _forget_stopped(out: Path) -> None:
    """Weights of a run that was stopped while writing them, perhaps into shards of another size."""
    for file in (*out.glob("*.safetensors"), *out.glob("part-*.unfinished"), out / INDEX):
        file.unlink(missing_ok=True)


def _tensors(run: LayerRun) -> Iterator[tuple[str, Tensor]]:
    """Result tensors in checkpoint order, a layer in memory at a time."""
    for name in run.dense.rest_names():
        if name in run.source.files:  # a tied head is not stored
            yield name, run.source.read(name)
    for index in range(len(run.dense.layers)):
        for name, tensor in run.work.tensors(layer_stem(index)).items():
            if not name.startswith(ORDER):
                yield name, tensor


def _orders(work: Work, layers: int) -> Iterator[tuple[str, Tensor]]:
    for index in range(layers):
        for name, tensor in work.tensors(layer_stem(index)).items():
            if name.startswith(ORDER):
                yield name.removeprefix(ORDER), tensor


def _write_shards(tensors: Iterator[tuple[str, Tensor]], out: Path, shard_bytes: int) -> None:
    shards: list[list[str]] = []
    held: dict[str, Tensor] = {}
    total = 0
    for name, tensor in tensors:
        if held and _size(held) + tensor.nbytes > shard_bytes:
            shards.append(_write_shard(out, len(shards), held))
            held = {}
        held[name] = tensor.contiguous()
        total += tensor.nbytes
    shards.append(_write_shard(out, len(shards), held))
    if len(shards) == 1:
        _part(out, 0).rename(out / "model.safetensors")
        return
    files = [f"model-{number + 1:05d}-of-{len(shards):05d}.safetensors" for number in range(len(shards))]
    for number, file in enumerate(files):
        _part(out, number).rename(out / file)
    weight_map = {name: file for file, names in zip(files, shards, strict=True) for name in names}
    (out / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2) + "\n")


def _write_shard(out: Path, number: int, tensors: dict[str, Tensor]) -> list[str]:
    save_file(tensors, _part(out, number), metadata={"format": "pt"})
    return list(tensors)


def _part(out: Path, number: int) -> Path:
    return out / f"part-{number}.unfinished"


def _size(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
