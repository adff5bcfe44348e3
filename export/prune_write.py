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
from export.llm_shards import Placed, write_shards
from export.prune_layers import ORDER, LayerRun
from export.prune_work import Work, layer_stem

SHARD_BYTES = 4 * 1024**3
PERMUTATIONS = Path("pruning") / "permutations.safetensors"


def write_config(source: ModelFolder, folder: Path, changes: dict[str, Any]) -> None:
    """config.json of the result: the source's, with changed widths only."""
    (folder / CONFIG).write_text(json.dumps(source.config | changes, indent=2, ensure_ascii=False) + "\n")


def write_folder(run: LayerRun, out: Path) -> None:
    """Everything but config.json, which `write_config` wrote before the first layer; one tensor in memory."""
    _forget_stopped(out)
    run.source.copy_beside(out)
    write_shards(_tensors(run), out, SHARD_BYTES)
    if orders := dict(_orders(run.work, len(run.dense.layers))):
        (out / PERMUTATIONS).parent.mkdir(exist_ok=True)
        save_file(orders, out / PERMUTATIONS)


def _forget_stopped(out: Path) -> None:
    """Weights of a run that was stopped while writing them."""
    for file in (*out.glob("*.safetensors"), *out.glob("*.unfinished"), out / INDEX):
        file.unlink(missing_ok=True)


def _tensors(run: LayerRun) -> Iterator[Placed]:
    """Result tensors in checkpoint order."""
    for name in run.dense.rest_names():
        if name in run.source.files:  # a tied head is not stored
            yield Placed(name, run.source.path / run.source.files[name])
    for index in range(len(run.dense.layers)):
        file = run.work.tensors_file(layer_stem(index))
        yield from (Placed(name, file) for name in run.work.names(layer_stem(index)) if not name.startswith(ORDER))


def _orders(work: Work, layers: int) -> Iterator[tuple[str, Tensor]]:
    for index in range(layers):
        stem = layer_stem(index)
        for name in work.names(stem):
            if name.startswith(ORDER):
                yield name.removeprefix(ORDER), work.tensor(stem, name)
