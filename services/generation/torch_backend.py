"""A Hugging Face network run by transformers: the oracle that tests compare with, and the way onto a CUDA device.

The cache is one tensor [2 x layers, N, kv_heads, capacity, head_dim] of the network's own dtype; transformers writes
into it through cache layers that know which slots a call is about, and how many tokens each holds. Rows of a step are
of different lengths, so every call brings its mask. On the CPU everything is float32.
This module loads torch and transformers; it is imported only where an operator or a test asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from models.llm.spec import LanguageModelSpec
from services.core.runtime import RuntimeOptions
from services.generation.backend import Cached
from services.generation.faults import GraphError
from services.generation.request import Logits


@dataclass(slots=True)
class _Where:
    """What a call is about: slots first .. first+n-1, each holding `starts` [n] tokens before it."""

    first: int = 0
    starts: Tensor | None = None
    longest: int = 0  # tokens of the longest row after the call


class _SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's keys and values of all slots, [N, kv_heads, capacity, head_dim]."""

    def __init__(self, keys: Tensor, values: Tensor, where: _Where) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = self._keys, self._values = keys, values
        self._where = where
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Everything is there from the start."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write [n, kv_heads, S, head_dim] after what the rows hold; the rows with it."""
        where = self._where
        assert where.starts is not None
        rows = torch.arange(where.first, where.first + len(key_states), device=self._keys.device)[:, None]
        places = where.starts[:, None] + torch.arange(key_states.shape[2], device=self._keys.device)
        self._keys[rows, :, places] = key_states.transpose(1, 2)
        self._values[rows, :, places] = value_states.transpose(1, 2)
        mine = slice(where.first, where.first + len(key_states))
        return self._keys[mine, :, : where.longest], self._values[mine, :, : where.longest]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys."""
        return self._where.longest, 0

    def get_seq_length(self) -> int:
        """Tokens of the longest row before the call; masks and positions are given, so it decides nothing."""
        return 0 if self._where.starts is None else int(self._where.starts.max())

    def get_max_length(self) -> int:
        """Capacity of a slot."""
        return int(self._keys.shape[2])


class TorchBackend:
    """See `services.generation.backend.Backend`. Logits agree with those of other batches within rounding only.

    folder  config.json and *.safetensors
    """

    def __init__(
        self, folder: Path, spec: LanguageModelSpec, slots: int, capacity: int, options: RuntimeOptions
    ) -> None:
        torch.set_num_threads(options.threads)
        self._device = torch.device("cuda" if options.cuda and torch.cuda.is_available() else "cpu")
        self._network = _load(folder, self._device)
        _check(self._network.config, spec)
        self.slots, self.capacity, self.vocabulary = slots, capacity, spec.vocabulary
        shape = (2 * spec.layers, slots, spec.kv_heads, capacity, spec.head_dim)
        self._cache = torch.zeros(shape, dtype=self._network.dtype, device=self._device)
        self.token_bytes = 2 * spec.layers * spec.kv_heads * spec.head_dim * self._cache.itemsize
        self._where = _Where()
        pairs = [(self._cache[2 * layer], self._cache[2 * layer + 1]) for layer in range(spec.layers)]
        self._layers = Cache(layers=[_SlotLayer(keys, values, self._where) for keys, values in pairs])

    def prefill(self, slot: int, start: int, tokens: Sequence[int], every: bool) -> Logits:
        logits: Logits = self._run(slot, torch.tensor([tokens]), torch.tensor([start]), 0 if every else 1)[0]
        return logits

    def decode(self, first: int, tokens: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Logits:
        logits: Logits = self._run(first, torch.tensor(tokens)[:, None], torch.tensor(lengths), 1)[:, 0]
        return logits

    def move(self, source: int, target: int, tokens: int) -> None:
        self._cache[:, target, :, :tokens] = self._cache[:, source, :, :tokens]

    def swap(self, one: int, other: int, tokens: int) -> None:
        kept = self.read(one, 0, tokens)
        self.move(other, one, tokens)
        self.write(other, 0, kept)

    def share(self, source: int, target: int, start: int, stop: int) -> None:
        self._cache[:, target, :, start:stop] = self._cache[:, source, :, start:stop]

    def read(self, slot: int, start: int, stop: int) -> Cached:
        return self._cache[:, slot, :, start:stop].clone()

    def write(self, slot: int, start: int, cached: Cached) -> None:
        self._cache[:, slot, :, start : start + cached.shape[2]] = cached

    def release(self, slot: int) -> None:
        """Memory stays taken."""

    def close(self) -> None:
        """Memory goes with the object."""

    @torch.inference_mode()
    def _run(self, first: int, ids: Tensor, starts: Tensor, keep: int) -> Logits:
        """ids [n, S] after starts [n] tokens; logits of the last `keep` tokens of each row, 0: of all."""
        longest = int(starts.max()) + ids.shape[1]
        positions = (starts[:, None] + torch.arange(ids.shape[1])).to(self._device)
        self._where.first, self._where.starts, self._where.longest = first, starts.to(self._device), longest
        visible = torch.arange(longest, device=self._device) <= positions[:, :, None]  # [n, S, T]
        answer = self._network(
            input_ids=ids.to(self._device),
            attention_mask=visible[:, None],
            position_ids=positions,
            cache=self._layers,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: Logits = answer.logits.float().cpu().numpy()
        return logits


def _load(folder: Path, device: torch.device) -> Any:
    """A network in evaluation mode. Raises GraphError where the folder does not hold one."""
    dtype = torch.float32 if device.type == "cpu" else "auto"
    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    try:
        network: Any = library.AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as fault:
        raise GraphError(f"llm_torch_folder does not hold a network transformers can load: {fault}") from fault
    return network.eval().to(device)


def _check(config: Any, spec: LanguageModelSpec) -> None:
    """Is it the artifact's model, by its sizes?"""
    pairs = [
        ("vocabulary", config.vocab_size, spec.vocabulary),
        ("layers", config.num_hidden_layers, spec.layers),
        ("kv_heads", config.num_key_value_heads, spec.kv_heads),
    ]
    for name, found, expected in pairs:
        if found != expected:
            raise GraphError(f"llm_torch_folder holds another model: {name} is {found}, the artifact's {expected}")
