"""`example.json` of a watermarking scheme: a text its generator wrote, marked, and what reading it says.

The key is public and good for nothing else: the example shows what a reading looks like, and a server that loads the
scheme repeats it before it serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from export.artifact import Artifact
from export.llm_graph import GRAPH
from export.llm_runner import GraphRunner
from models.balance_marking.decoder import Decoder, Reading
from models.balance_marking.encoder import Marker
from models.balance_marking.proxy import BigramProxy
from models.balance_marking.scheme import MarkingScheme
from models.llm.spec import LanguageModelSpec

KEY, MESSAGE = 20_231_115, 0xB1A5
PROMPT = "The history of the town begins with"
TEMPERATURE, NUCLEUS, SEED = 0.8, 0.95, 7
RTOL = 1e-6


@dataclass(frozen=True)
class Generator:
    """The language model whose text is marked: its artifact, and its tokenizer."""

    artifact: Artifact
    spec: LanguageModelSpec
    tokenizer: Tokenizer


def make_example(generator: Generator, scheme: MarkingScheme, proxy: BigramProxy) -> dict[str, Any]:
    """Mark one text of one segment, and read what the text alone says."""
    message = MESSAGE % (1 << scheme.message_bits)
    ids = _generate(generator, Marker(scheme.partition(KEY, proxy), (message,)), scheme.tokens_needed(1))
    text = generator.tokenizer.decode(ids)
    reading = read_example(generator.tokenizer, scheme, proxy, text)
    return {
        "request": {"text": text},
        "key": KEY,
        "embedded": message,
        "response": described(reading),
        "tolerance": {"rtol": RTOL, "atol": 0.0},
    }


def read_example(tokenizer: Tokenizer, scheme: MarkingScheme, proxy: BigramProxy, text: str) -> Reading:
    """The reading of a text under the public key."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return Decoder(partition=scheme.partition(KEY, proxy), level=scheme.level).read(ids)


def described(reading: Reading) -> dict[str, Any]:
    """What the example states of a reading."""
    [segment] = reading.segments
    return {
        "verdict": reading.verdict,
        "message": segment.message,
        "count": segment.candidates[0].count if segment.candidates else 0,
        "margin": segment.margin,
        "scored": segment.scored,
        "unique": segment.unique,
        "p_value": reading.p_value,
    }


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two readings agree; p-values to RTOL."""
    exact = all(one[name] == other[name] for name in one if name != "p_value")
    return exact and bool(np.isclose(one["p_value"], other["p_value"], rtol=RTOL, atol=0.0))


def _generate(generator: Generator, marker: Marker, tokens: int) -> list[int]:
    """So many tokens after PROMPT; the model's end tokens are never drawn."""
    spec, random = generator.spec, np.random.default_rng(SEED)
    prompt = generator.tokenizer.encode(PROMPT, add_special_tokens=False).ids
    tokens = min(tokens, spec.context_length - len(prompt))
    runner = GraphRunner(generator.artifact.file(GRAPH), spec, rows=1, capacity=len(prompt) + tokens)
    logits, ids = runner.last(0, prompt).copy(), list[int]()
    while True:
        logits[list(spec.end_tokens)] = -np.inf
        marker(prompt, ids, logits)
        ids.append(_drawn(logits, random))
        if len(ids) == tokens:
            return ids
        logits = runner.step([ids[-1]])[0].copy()


def _drawn(logits: npt.NDArray[np.float32], random: np.random.Generator) -> int:
    """One token of the nucleus."""
    order = np.argsort(-logits, kind="stable")
    weights = np.exp((logits[order] - logits[order[0]]).astype(np.float64) / TEMPERATURE)
    shares = weights / weights.sum()
    kept = int(np.searchsorted(np.cumsum(shares), NUCLEUS)) + 1
    return int(order[random.choice(kept, p=shares[:kept] / shares[:kept].sum())])
