"""Official checkpoints, read without running any code that may be inside.

In   `checkpoint.pth` (torch.save of a state dict, zip or older format) or `.safetensors`; content decides, not suffix
Out  official parameter name -> float32 tensor on the CPU (complex64 where the program has complex weights, int64 for
     BatchNorm's counters), and where it came from

People's files vary: a bare state dict, `{model: ...}`, `{model, model_optim}`, `{state_dict: ...}`, and names behind
`module.` (several GPUs) or `_orig_mod.` (torch.compile). Those are unwrapped here; what a paper's own layout needs
(CARD's `model.`) is left to its `translate`. The files hold no hyper-parameters and no scaler: see the sibling modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from export.artifact import Source, sha256_file
from export.checkpoint_files import load_pth, load_safetensors, sniff
from export.errors import CheckpointFileError

WRAPPERS = ("model", "state_dict", "model_state_dict")
PREFIXES = ("module.", "_orig_mod.")
COUNTERS = "num_batches_tracked"  # the one integer buffer official state dicts carry
RESAVE = "save the weights alone: torch.save(model.state_dict(), 'checkpoint.pth')"


@dataclass(frozen=True)
class Checkpoint:
    """A state dict under official names, and the facts the manifest records about its file."""

    path: Path
    state: dict[str, Tensor]
    source: Source


def read_checkpoint(path: Path, ignore: Collection[str] = ()) -> Checkpoint:
    """Read an official checkpoint. Raises CheckpointFileError saying what is wrong with the file and what to do.

    ignore  names that may be there and are no weights: left out, whatever they hold
    """
    form = sniff(path)
    loaded = load_safetensors(path) if form == "safetensors" else load_pth(path)
    notes: list[str] = []
    named = _strip(_unwrap(loaded, notes), notes)
    state = _named_tensors({name: value for name, value in named.items() if name not in ignore}, notes)
    source = Source(file=path.name, format=form, sha256=sha256_file(path), tensors=len(state), notes=notes)
    return Checkpoint(path, state, source)


def _unwrap(loaded: Any, notes: list[str]) -> Mapping[Any, Any]:
    """The state dict inside `{model: state dict, ...}` and its like, however often it is wrapped."""
    while isinstance(loaded, Mapping):
        inner = [key for key in WRAPPERS if isinstance(loaded.get(key), Mapping)]
        if not inner:
            return loaded
        rest = sorted(str(key) for key in loaded if key != inner[0])
        notes.append(f"taken from entry {inner[0]!r}" + (f", not used: {', '.join(rest)}" if rest else ""))
        loaded = loaded[inner[0]]
    raise CheckpointFileError(f"the file holds a {type(loaded).__name__}, expected a state dict of tensors", RESAVE)


def _strip(state: Mapping[Any, Any], notes: list[str]) -> dict[str, Any]:
    """Remove wrapper prefixes that stand before every name; a prefix before only some names means something else."""
    if odd := [key for key in state if not isinstance(key, str)]:
        raise CheckpointFileError(f"the state dict has a key {odd[0]!r}, expected parameter names", RESAVE)
    named = dict(state)
    while named and (prefix := next((p for p in PREFIXES if all(k.startswith(p) for k in named)), None)):
        named = {key.removeprefix(prefix): value for key, value in named.items()}
        notes.append(f"prefix {prefix!r} removed from every name")
    return named


def _named_tensors(state: dict[str, Any], notes: list[str]) -> dict[str, Tensor]:
    if not state:
        raise CheckpointFileError("the state dict is empty", "choose the checkpoint the training run wrote at its end")
    tensors, converted = {}, Counter[str]()
    for name, value in state.items():
        tensors[name] = _usable(name, value)
        if value.dtype != tensors[name].dtype:
            converted[f"{_short(value.dtype)} tensors converted to {_short(tensors[name].dtype)}"] += 1
    notes.extend(f"{count} {what}" for what, count in sorted(converted.items()))
    return tensors


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _usable(name: str, value: Any) -> Tensor:
    """The tensor as contiguous float32 (complex64, or the int64 counter it is); all else is refused by name."""
    if not isinstance(value, Tensor):
        raise CheckpointFileError(f"entry {name} is a {type(value).__name__}, expected a tensor", RESAVE)
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        raise CheckpointFileError(
            f"tensor {name} is a sparse, quantised or empty-device tensor, expected a dense one", RESAVE
        )
    if name.rpartition(".")[2] == COUNTERS and value.dtype == torch.int64:
        return value.detach().clone()
    if value.is_complex():
        return _finite(name, value.detach().to(torch.complex64).contiguous().clone())
    if not value.is_floating_point():
        raise CheckpointFileError(f"tensor {name} is {_short(value.dtype)}, expected floating-point weights", RESAVE)
    return _finite(name, value.detach().to(torch.float32).contiguous().clone())


def _finite(name: str, dense: Tensor) -> Tensor:
    if not bool(torch.isfinite(dense).all()):
        raise CheckpointFileError(
            f"tensor {name} holds NaN or infinite values (after conversion to float32)",
            "the training run diverged or the file is damaged: use an earlier checkpoint",
        )
    return dense
