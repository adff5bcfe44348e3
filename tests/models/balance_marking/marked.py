"""Small marked and unmarked texts: a made-up language of Zipf-distributed words with preferred followers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.balance_marking.config import MarkingConfig
from models.balance_marking.encoder import Marker
from models.balance_marking.partition import BalancedPartition
from models.balance_marking.proxy import BigramProxy

VOCABULARY = 80


class Language:
    """Next-token logits that depend on the last token only."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        frequency = -0.5 * np.log(np.arange(1, VOCABULARY + 1))
        self.logits = (frequency + draw.normal(0, 0.7, (VOCABULARY, VOCABULARY))).astype(np.float32)

    def text(self, length: int, seed: int, marker: Marker | None = None) -> list[int]:
        draw = np.random.default_rng(seed)
        ids: list[int] = []
        for _ in range(length):
            logits = self.logits[ids[-1] if ids else 0].copy()
            if marker is not None:
                marker([], ids, logits)
            ids.append(int(np.argmax(logits + draw.gumbel(size=VOCABULARY))))
        return ids


def bigram(language: Language, texts: int = 40) -> BigramProxy:
    return BigramProxy.from_texts([language.text(300, 10_000 + seed) for seed in range(texts)], VOCABULARY)


def balanced(proxy: BigramProxy, **changes: object) -> BalancedPartition:
    settings = {"vocabulary": VOCABULARY, "key": 77, "message_bits": 10, "delta": 3.0, "window": 3, "permutations": 40}
    return BalancedPartition(MarkingConfig(**(settings | changes)), proxy)  # type: ignore[arg-type]


def naive_counts(partition: BalancedPartition, ids: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Message by message, position by position."""
    return [
        sum(bool(partition.available(ids[:p], message, np.array([ids[p]]))[0]) for p in positions)
        for message in range(partition.config.messages)
    ]
