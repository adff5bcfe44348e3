"""An ONNX graph with GroupQueryAttention over one shared cache, without a copy or an allocation a step.

Graph  in   input_ids int64 [B, S], attention_mask int64 [B, T] (only its row sums count: tokens held after the step),
            past_key_values.N.key/value float32 [B, kv_heads, capacity, head_dim], logits_positions int64 [K]
       out  logits float32 [K, V], present.N.key/value: the same memory as the past

The cache of all slots is one array; a step binds its first n slots, a chunk of a prompt the slot it goes into, so
both write where the tokens stay. Bindings of steps are made once for every n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from models.llm.spec import LanguageModelSpec
from models.packed.library import register
from services.core.runtime import RuntimeOptions
from services.generation.backend import Cached
from services.generation.cache_memory import CacheMemory
from services.generation.faults import GraphError
from services.generation.request import Logits

_PAST, _PRESENT = "past_key_values", "present"
_KEPT = 256  # tokens: memory of slots that held no more is not given back, their next sequence writes there again
_NARROWEST = 128  # columns of the mask, at least; doubled as sequences grow


@dataclass(frozen=True, slots=True)
class _Step:
    """Buffers of a step of n sequences, bound to the session."""

    binding: Any
    tokens: npt.NDArray[np.int64]  # [n, 1]
    mask: npt.NDArray[np.int64]  # [n, T], zero but for the first column
    logits: Logits  # [n, V]


class OnnxBackend:
    """See `services.generation.backend.Backend`.

    longest  tokens of a prompt worked on at once, >= 1
    """

    def __init__(
        self, graph: Path, spec: LanguageModelSpec, slots: int, capacity: int, longest: int, options: RuntimeOptions
    ) -> None:
        self._session = _session(graph, options)
        self._pasts = [entry.name for entry in self._session.get_inputs() if entry.name.startswith(_PAST)]
        _check(self._session, self._pasts, spec)
        self.slots, self.capacity, self.vocabulary = slots, capacity, spec.vocabulary
        shape = (len(self._pasts), slots, spec.kv_heads, capacity, spec.head_dim)
        self._memory = CacheMemory(shape)
        self._cache = self._memory.array
        self.token_bytes = len(self._pasts) * spec.kv_heads * spec.head_dim * self._cache.itemsize
        self._written = np.zeros(slots, np.int64)  # tokens of each slot whose memory is taken
        self._logits = np.zeros((max(slots, longest), spec.vocabulary), np.float32)
        self._rows = np.arange(max(slots, longest), dtype=np.int64)
        self._steps: dict[tuple[int, int, int], _Step] = {}  # first slot, n, width of the mask

    def prefill(self, slot: int, start: int, tokens: Sequence[int], every: bool) -> Logits:
        ids = np.array([tokens], np.int64)
        mask = self._mask(1, start + len(tokens))
        mask[0, 0] = start + len(tokens)
        wanted = self._rows[: len(tokens)] if every else self._rows[len(tokens) - 1 : len(tokens)]
        logits = self._logits[: len(wanted)]
        self._note(slot, start + len(tokens))
        self._session.run_with_iobinding(self._bind(slot, ids, mask, wanted, logits))
        return logits

    def decode(self, first: int, tokens: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Logits:
        step = self._step(first, len(tokens), int(lengths.max()) + 1)
        step.tokens[:, 0] = tokens
        np.add(lengths, 1, out=step.mask[:, 0])
        written = self._written[first : first + len(tokens)]
        np.maximum(written, step.mask[:, 0], out=written)
        self._session.run_with_iobinding(step.binding)
        return step.logits

    def move(self, source: int, target: int, tokens: int) -> None:
        self.share(source, target, 0, tokens)

    def swap(self, one: int, other: int, tokens: int) -> None:
        kept = self.read(one, 0, tokens)
        self.move(other, one, tokens)
        self.write(other, 0, kept)

    def share(self, source: int, target: int, start: int, stop: int) -> None:
        self._note(target, stop)
        self._cache[:, target, :, start:stop] = self._cache[:, source, :, start:stop]

    def read(self, slot: int, start: int, stop: int) -> Cached:
        return self._cache[:, slot, :, start:stop].copy()

    def write(self, slot: int, start: int, cached: Cached) -> None:
        stop = start + cached.shape[2]
        self._note(slot, stop)
        self._cache[:, slot, :, start:stop] = cached

    def release(self, slot: int) -> None:
        if self._written[slot] > _KEPT:
            self._memory.release(slot)
            self._written[slot] = 0

    def close(self) -> None:
        self._steps.clear()

    def _note(self, slot: int, tokens: int) -> None:
        self._written[slot] = max(self._written[slot], tokens)

    def _step(self, first: int, n: int, longest: int) -> _Step:
        key = (first, n, self._width(longest))
        if key not in self._steps:
            ids, mask, logits = np.zeros((n, 1), np.int64), self._mask(n, longest), self._logits[:n]
            self._steps[key] = _Step(self._bind(first, ids, mask, self._rows[:n], logits), ids, mask, logits)
        return self._steps[key]

    def _mask(self, rows: int, longest: int) -> npt.NDArray[np.int64]:
        return np.zeros((rows, self._width(longest)), np.int64)

    def _width(self, longest: int) -> int:
        """Columns of a mask for rows of at most so many tokens: few different ones, none much too wide."""
        return min(self.capacity, max(_NARROWEST, 1 << (longest - 1).bit_length()))

    def _bind(
        self,
        slot: int,
        ids: npt.NDArray[np.int64],
        mask: npt.NDArray[np.int64],
        wanted: npt.NDArray[np.int64],
        logits: Logits,
    ) -> Any:
        """Input and output memory of slots `slot` .. `slot + B - 1`. The arrays must outlive the binding's runs."""
        binding = self._session.io_binding()
        for name, array in (("input_ids", ids), ("attention_mask", mask), ("logits_positions", wanted)):
            binding.bind_input(name, "cpu", 0, np.int64, array.shape, array.ctypes.data)
        binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
        for part, name in enumerate(self._pasts):
            rows = self._cache[part, slot : slot + len(ids)]
            binding.bind_input(name, "cpu", 0, np.float32, rows.shape, rows.ctypes.data)
            present = name.replace(_PAST, _PRESENT)
            binding.bind_output(present, "cpu", 0, np.float32, rows.shape, rows.ctypes.data)
        return binding


def _session(graph: Path, options: RuntimeOptions) -> Any:
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.log_severity_level = 3
    register(settings, graph)
    return ort.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])


def _check(session: Any, pasts: list[str], spec: LanguageModelSpec) -> None:
    inputs = {entry.name for entry in session.get_inputs()}
    expected = {"input_ids", "attention_mask", "logits_positions", *pasts}
    if inputs != expected or len(pasts) != 2 * spec.layers:
        odd = ", ".join(sorted(inputs ^ expected)) or f"{len(pasts)} caches for {spec.layers} layers"
        raise GraphError(f"the graph's inputs are not those of a cached decoder: {odd}")
