"""Run a language model's graph as the service does: one shared cache, rows of different lengths, one CPU thread.

The exporter's own small loop, so that a certificate is made without the serving code it vouches for.
Letters: B rows of a call, S tokens a row is fed, K wanted logits, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from export.errors import ConversionError
from export.llm_graph import LOGITS, POSITIONS
from models.llm.spec import LanguageModelSpec
from models.packed.library import register

CHUNK = 128  # tokens of a prompt that are fed at once
_CPU = ("cpu", 0)
_REPORT = "report it with the model's type"

Logits = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


class GraphRunner:
    """A session with a cache of float32 [rows, kv_heads, capacity, head_dim] a layer, for keys and for values.

    kernels  False: run by onnxruntime alone what runs by kernels of ours, too
    """

    def __init__(self, graph: Path, spec: LanguageModelSpec, *, rows: int, capacity: int, kernels: bool = True) -> None:
        self._session = _session(graph, kernels)
        shape = (rows, spec.kv_heads, capacity, spec.head_dim)
        names = [f"{layer}.{part}" for layer in range(spec.layers) for part in ("key", "value")]
        self._cache = {name: np.zeros(shape, np.float32) for name in names}
        self._lengths = np.zeros(rows, np.int64)

    def prefill(self, row: int, prompt: Sequence[int]) -> Iterator[Logits]:
        """Begin a row anew; logits after every token of the prompt, float32 [at most CHUNK, V] at a time."""
        self._lengths[row] = 0
        for at in range(0, len(prompt), CHUNK):
            ids = np.asarray(prompt[at : at + CHUNK], np.int64)[None]
            yield self._feed(row, ids, np.arange(ids.shape[1]))

    def last(self, row: int, prompt: Sequence[int]) -> Logits:
        """Begin a row anew; float32 [V], logits after the prompt."""
        *_, logits = self.prefill(row, prompt)
        found: Logits = logits[-1]
        return found

    def step(self, tokens: Sequence[int]) -> Logits:
        """Feed every row one token; float32 [rows, V]."""
        ids = np.asarray(tokens, np.int64)[:, None]
        return self._feed(0, ids, np.arange(len(ids)))

    def _feed(self, first: int, ids: Ids, positions: Ids) -> Logits:
        """Rows first, first+1, ... take ids [B, S]; float32 [K, V]."""
        rows = slice(first, first + ids.shape[0])
        self._lengths[rows] += ids.shape[1]
        lengths = self._lengths[rows]
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        binding = self._session.io_binding()
        binding.bind_output(LOGITS, "cpu")
        for name, values in (("input_ids", ids), ("attention_mask", mask), (POSITIONS, positions)):
            binding.bind_cpu_input(name, np.ascontiguousarray(values))
        for name, cache in self._cache.items():
            place = (*_CPU, np.float32, cache[rows].shape, cache[rows].ctypes.data)
            binding.bind_input(f"past_key_values.{name}", *place)
            binding.bind_output(f"present.{name}", *place)
        try:
            self._session.run_with_iobinding(binding)
        except RuntimeError as error:
            raise ConversionError(f"the graph does not run: {str(error).splitlines()[0]}", _REPORT) from error
        logits: Logits = binding.get_outputs()[0].numpy()
        return logits


def _session(graph: Path, kernels: bool) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # what it says is in the error
    register(options, graph, optional=kernels)
    return ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
