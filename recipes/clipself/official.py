"""The checkpoint a run starts from and the one it ends in, both under the official parameter names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from export.checkpoint_files import load_pth, load_safetensors, sniff
from models.clipself.checkpoint import translate, vision_slots
from models.clipself.clip import Clip, build
from models.clipself.config import ClipConfig, ClipConfigError, parse_config
from models.statedict import CheckpointError
from recipes.clipself.settings import Data, SettingsError


@dataclass(frozen=True)
class Original:
    """A CLIP model as published: official tensors, both towers, and what its configuration file says."""

    state: dict[str, Tensor]
    config: ClipConfig
    network: Clip
    document: dict[str, Any]


def read_original(data: Data) -> Original:
    """Checkpoint and configuration. Raises SettingsError or CheckpointFileError."""
    try:
        document = json.loads(data.config.read_text(encoding="utf-8"))
        config = parse_config(document.get("config", document))
        state = _state(data.checkpoint)
        network = build(config)
        network.load_state_dict(translate(state, config).state)
    except (ValueError, AttributeError, ClipConfigError, CheckpointError) as error:
        raise SettingsError(f"data: {data.checkpoint.name} with {data.config.name}: {error}") from None
    return Original(state, config, network, document)


def write_checkpoint(path: Path, original: Original, tower: dict[str, Tensor]) -> None:
    """The original file with another image tower, in the original's precision.

    tower  our names -> weights of `Clip.visual`
    """
    written = dict(original.state)
    for slot in vision_slots(original.config.vision, "visual.", "", original.state):
        if slot.ours is not None:
            kept = original.state[slot.official]
            written[slot.official] = tower[slot.ours].reshape(kept.shape).to(kept.dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in written.items()}, path)


def _state(path: Path) -> dict[str, Tensor]:
    """Official tensors; a training program's file keeps them under `state_dict`, perhaps behind `module.`."""
    found = load_safetensors(path) if sniff(path) == "safetensors" else load_pth(path)
    found = found.get("state_dict", found)
    return {name.removeprefix("module."): tensor for name, tensor in found.items() if torch.is_tensor(tensor)}
