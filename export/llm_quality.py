"""Perplexity of an exported graph beside its reference's, on the same windows of a held text.

Protocol of `export.llm_text`: equal windows, tokens 2..T of each scored, from logits in float32.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from export.llm_cases import log_softmax
from export.llm_runner import GraphRunner
from models.llm.spec import LanguageModelSpec


@dataclass(frozen=True)
class Quality:
    """Perplexity of reference and graph on the same windows of a text."""

    text: str
    sha256: str
    windows: int
    tokens: int
    reference: float
    graph: float

    @property
    def ratio(self) -> float:
        return self.graph / self.reference

    def as_json(self) -> dict[str, Any]:
        """Six significant digits: sums in another order change later ones."""
        found = asdict(self) | {"ratio": self.ratio}
        return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in found.items()}


def graph_perplexity(graph: Path, spec: LanguageModelSpec, windows: Any) -> float:
    """Of windows int64 [n, T], one after another."""
    ids = np.asarray(windows)
    runner = GraphRunner(graph, spec, rows=1, capacity=ids.shape[1])
    total = 0.0
    for window in ids:
        following, at = window[1:, None], 0
        for logits in runner.prefill(0, window.tolist()):
            scores = log_softmax(logits[: len(following) - at])  # nothing follows the last token
            total -= float(np.take_along_axis(scores, following[at : at + len(scores)], axis=1).sum(dtype=np.float64))
            at += len(scores)
    return math.exp(total / (ids.shape[0] * (ids.shape[1] - 1)))
