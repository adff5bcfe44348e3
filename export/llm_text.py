"""Text -> windows of tokens, and perplexity on them, one layer in memory at a time.

Protocol: a file is tokenised whole, without special tokens; n windows of T tokens are taken at equal strides; tokens
2..T of each are scored; perplexity = exp(mean negative log-likelihood), logits in the network's precision and their
log-likelihood in float32. Calibration windows lie one in each
of n equal parts of the text, at a place the seed draws, so that they never overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from export.artifact import sha256_file
from export.errors import DataError
from export.llm_folder import Tensors
from export.llm_layers import LayerwiseNetwork
from models.llm.walk import enter, logits_after, run_layer


@dataclass(frozen=True)
class TokenText:
    """A tokenised file: ids int64 [N]."""

    name: str
    sha256: str
    ids: Tensor


def read_tokens(path: Path, tokenizer: Any) -> TokenText:
    """Raises DataError where the file is no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as UTF-8 text ({error})", "give a plain text file") from error
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return TokenText(path.name, sha256_file(path), torch.tensor(ids, dtype=torch.int64))


def equal_windows(text: TokenText, count: int, length: int) -> Tensor:
    """int64 [count, length], window i starting at i * (N // count)."""
    stride = _stride(text, count, length)
    return torch.stack([text.ids[i * stride : i * stride + length] for i in range(count)])


def drawn_windows(text: TokenText, count: int, length: int, seed: int) -> Tensor:
    """int64 [count, length], window i somewhere in the i-th of `count` equal parts."""
    stride = _stride(text, count, length)
    generator = torch.Generator().manual_seed(seed)
    shifts = torch.randint(stride - length + 1, (count,), generator=generator).tolist()
    starts = [i * stride + shift for i, shift in enumerate(shifts)]
    return torch.stack([text.ids[start : start + length] for start in starts])


@torch.no_grad()
def perplexity(
    network: LayerwiseNetwork, layers: Tensors, windows: Tensor, seen: Callable[[int], None] = lambda done: None
) -> float:
    """Perplexity of windows int64 [n, T]; `seen` is called with the number of layers done."""
    entry = enter(network.network, windows)
    hidden = entry.hidden
    for index, arguments in enumerate(entry.arguments):
        with network.layer(index, layers) as layer:
            hidden = run_layer(layer, hidden, arguments)
        seen(index + 1)
    total = 0.0
    for ids, last in zip(windows, hidden, strict=True):
        logits = logits_after(network.network, ids[None], last[None])[0, :-1].float()
        total += float(functional.cross_entropy(logits, ids[1:], reduction="sum"))
    return math.exp(total / (windows.shape[0] * (windows.shape[1] - 1)))


def _stride(text: TokenText, count: int, length: int) -> int:
    stride = len(text.ids) // count
    if stride < length:
        message = f"{text.name}: {len(text.ids)} tokens, too few for {count} windows of {length}"
        raise DataError(message, f"give a longer text, or at most {len(text.ids) // length} windows")
    return stride
