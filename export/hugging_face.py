"""The one door to transformers: always offline, quiet, and imported only when something is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from export.errors import CheckpointFileError

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TQDM_DISABLE": "1",  # we have a progress bar of our own
}


def transformers() -> Any:
    """The library, told never to use the network."""
    os.environ.update(SETTINGS)
    import transformers

    library: Any = transformers
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


def load_network(folder: Path, *, room: int | None = None, offload: Path | None = None) -> nn.Module:
    """The whole network in float32, evaluation mode. Where it needs more than `room` bytes, accelerate keeps what does
    not fit on disk in `offload` and fetches it layer by layer, which is slow but runs."""
    placed: dict[str, Any] = {}
    if room is not None and float32_bytes(folder) > room:
        placed = {"device_map": "auto", "max_memory": {"cpu": room}, "offload_folder": str(offload)}
    try:
        network: nn.Module = transformers().AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, **placed
        )
    except (OSError, ValueError, RuntimeError) as error:
        hint = "transformers must know its model_type, and tensors must fit config.json"
        raise CheckpointFileError(f"{folder} does not load: {_first_line(error)}", hint) from error
    return network.requires_grad_(False)


def float32_bytes(folder: Path) -> int:
    """Upper estimate of a network's size in float32, from its files: none stores wider numbers, most half as wide."""
    return 2 * sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer."""
    try:
        return transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        hint = "a tokenizer.json (or tokenizer.model) must lie beside the weights"
        raise CheckpointFileError(f"{folder}: no usable tokenizer ({_first_line(error)})", hint) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
