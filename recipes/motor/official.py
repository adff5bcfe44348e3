"""A checkpoint folder as femr 0.2.3 publishes it: config.json, model.safetensors, dictionary.msgpack.

`ontology.json` beside them is ours: the code hierarchy that the published program takes from elsewhere at run time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack
import torch
from safetensors.torch import save_file
from torch import Tensor

from export.ehr_source import ONTOLOGY, dump_ontology
from models.motor.config import MotorConfig
from models.motor.network import Motor

_NAMES = {
    "embed": "transformer.embed_bag.weight",
    "norm_in.weight": "transformer.in_norm.weight",
    "norm_out.weight": "transformer.out_norm.weight",
    "head.binned.weight": "task_model.final_layer.weight",
    "head.binned.bias": "task_model.final_layer.bias",
    "head.task.weight": "task_model.task_layer.weight",
    "head.task.bias": "task_model.task_layer.bias",
}
_PARTS = {"norm": "norm", "contract": "output_proj"}


def write_checkpoint(
    folder: Path, network: Motor, dictionary: Mapping[str, Any], info: Sequence[Any], parents: Mapping[str, list[str]]
) -> None:
    """Write the folder; info: a published description of each task, its code first."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.dumps(document(network.config, info), indent=1)  # holds the bare word Infinity, as published
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")
    (folder / "dictionary.msgpack").write_bytes(msgpack.packb(dictionary))
    (folder / ONTOLOGY).write_bytes(dump_ontology(parents))
    save_file(official_state(network.state_dict()), folder / "model.safetensors", metadata={"format": "pt"})


def document(config: MotorConfig, info: Sequence[Any]) -> dict[str, Any]:
    """config.json."""
    sizes = {
        "vocab_size": config.vocab_size,
        "is_hierarchical": config.hierarchical,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "n_heads": config.heads,
        "n_layers": config.layers,
        "attention_width": config.window,
        "use_normed_ages": config.ages == "overwrite",
        "use_bias": config.bias,
        "hidden_act": config.activation,
    }
    task = {
        "pretraining_task_info": list(info),
        "time_bins": [*config.time_bins, math.inf],
        "final_layer_size": config.rank,
    }
    return {
        "architectures": ["FEMRModel"],
        "transformer_config": sizes,
        "task_config": {"task_type": "motor", "task_kwargs": task},
    }


def official_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our names -> published names; feed-forward and attention columns become one projection again."""
    found = {}
    for name, tensor in state.items():
        if name in _NAMES:
            found[_NAMES[name]] = tensor
            continue
        _, layer, part, kind = name.split(".")
        if part == "qkv":
            wide = state[f"blocks.{layer}.expand.{kind}"]
            found[f"transformer.layers.{layer}.input_proj.{kind}"] = torch.cat([wide, tensor])
        elif part in _PARTS:
            found[f"transformer.layers.{layer}.{_PARTS[part]}.{kind}"] = tensor
    return {name: tensor.contiguous() for name, tensor in sorted(found.items())}
