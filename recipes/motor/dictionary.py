"""Counting a dictionary: the entries of `dictionary.msgpack`, most informative first (femr 0.2.3, hierarchical).

A code counts for every subject that has it or a code below it. Its weight is p log p + (1 - p) log (1 - p), p its share
of the subjects that have its rarest parent (of all subjects if it has none), times that parent's share.
Two deviations, both to keep what the published program loses: shares are smoothed, so that a code everybody has (blood
pressure, body weight) stays in; and the numeric bins hold equal numbers of values from the lowest to the highest (the
published program mixes up percentiles with quantiles, so that its bins divide the lowest one percent).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from models.motor.vocabulary import Ontology
from recipes.motor.records import BIRTH, Record
from recipes.motor.settings import Dictionary

_NUMERIC_WEIGHT = -1.0  # always kept

Entry = dict[str, Any]


def build_dictionary(records: Sequence[Record], ontology: Ontology, wanted: Dictionary) -> dict[str, Any]:
    """The document of `dictionary.msgpack`; token ids are places in its `vocab`."""
    entries = [*_codes(records, ontology), *_texts(records), *_numbers(records, wanted.numeric_bins)]
    entries.sort(key=lambda entry: (entry["weight"], str(entry.get("code_string", entry.get("text_string", "")))))
    return {"vocab": entries[: wanted.vocab_size], "is_hierarchical": True, "age_stats": _ages(records)}


def _codes(records: Sequence[Record], ontology: Ontology) -> list[Entry]:
    counts: Counter[str] = Counter()
    for record in records:
        own = {event.code for event in record.events} - {BIRTH}
        counts.update(set().union(*(ontology.ancestors(code) for code in own)))
    share = {code: _smooth(count, len(records)) for code, count in counts.items()}
    found = []
    for code, own_share in share.items():
        parents = (share[parent] for parent in ontology.ancestors(code) - {code})
        base = min(parents, default=1.0)
        weight = base * _information(min(own_share / base, 1 - 1e-9))
        found.append({"type": "code", "code_string": code, "weight": weight})
    return found


def _texts(records: Sequence[Record]) -> list[Entry]:
    """Text values, and units as the tokeniser spells them."""
    counts: Counter[str] = Counter()
    for record in records:
        texts = {event.text_value for event in record.events if event.text_value}
        units = {event.unit.lower().replace(" ", "") for event in record.events if event.unit}
        counts.update(texts | (units - {""}))
    shares = ((text, _smooth(count, len(records))) for text, count in counts.items())
    return [{"type": "text", "text_string": text, "weight": _information(share)} for text, share in shares]


def _numbers(records: Sequence[Record], bins: int) -> list[Entry]:
    """Half-open bins shared by all codes; every subject's values weigh the same together."""
    own = [np.array([e.numeric_value for e in r.events if e.numeric_value is not None]) for r in records]
    own = [values for values in own if len(values)]
    if not own:
        return []
    values, weights = np.concatenate(own), np.concatenate([np.full(len(v), 1 / len(v)) for v in own])
    edges = np.unique(_quantiles(values, weights, np.arange(1, bins) / bins))
    limits = [-math.inf, *edges.tolist(), math.inf]
    return [
        {"type": "numeric", "val_start": low, "val_end": high, "weight": _NUMERIC_WEIGHT}
        for low, high in pairwise(limits)
    ]


def _quantiles(
    values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], shares: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    return np.asarray(values[order][np.searchsorted(reached, shares)])


def _ages(records: Iterable[Record]) -> dict[str, float]:
    """Mean and deviation of ages at events after birth in seconds, every subject weighing the same."""
    ages, weights = [], []
    for record in records:
        own = [(e.time - record.birth).total_seconds() for e in record.events if e.time != record.birth]
        ages += own
        weights += [1 / len(record.events)] * len(own)
    mean = float(np.average(ages, weights=weights))
    return {"mean": mean, "std": float(np.sqrt(np.average(np.square(np.array(ages) - mean), weights=weights)))}


def _smooth(count: int, total: int) -> float:
    return (count + 0.5) / (total + 1)


def _information(share: float) -> float:
    """At most 0; lowest where half have it."""
    return share * math.log(share) + (1 - share) * math.log(1 - share)
