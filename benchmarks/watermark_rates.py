"""How often messages come back, also from edited texts, and how often unmarked texts are called marked."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import kstest

from benchmarks.watermark_served import Served
from benchmarks.watermark_texts import PROMPTS, Corpus, beginning, pasted, substituted

Json = dict[str, Any]
MESSAGES_SEED, WRONG_MESSAGES = 20, 12
MORE = 3  # texts a prompt whose perplexity is measured


@dataclass
class Recovery:
    """The marked texts, and how many gave their message back and were called marked, by what was done to them."""

    marked: list[Json] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    perplexity: tuple[float, float] = (0.0, 0.0)  # of unmarked and of marked texts
    rows: list[tuple[str, int, int, int]] = field(default_factory=list)  # what was done, recovered, marked, texts

    def rate(self, name: str) -> tuple[int, int]:
        """Recovered, and of how many."""
        return next((row[1], row[3]) for row in self.rows if row[0] == name)


AS_GENERATED, SUBSTITUTED, PASTED = "as generated", "10 % of words substituted", "in the middle of as many human words"


def recover(served: Served, human: Sequence[str], rounds: int) -> Recovery:
    """Mark `rounds` texts for every prompt and read them, whole and edited. human: texts to take words from."""
    found, draw = Recovery(), random.Random(MESSAGES_SEED)
    prompts = [*PROMPTS] * rounds
    found.messages = [draw.randrange(1 << 20) for _ in prompts]
    for at in range(rounds):
        some = slice(at * len(PROMPTS), (at + 1) * len(PROMPTS))
        found.marked += served.texts(PROMPTS, found.messages[some], seed=1000 * (at + 1))
    texts = [one["text"] for one in found.marked]
    words = [word for text in human for word in text.split()]
    edits = {
        AS_GENERATED: texts,
        "first 75 %": [beginning(text, 0.75) for text in texts],
        "first 50 %": [beginning(text, 0.5) for text in texts],
        "first 25 %": [beginning(text, 0.25) for text in texts],
        SUBSTITUTED: [substituted(text, 0.1, words, at) for at, text in enumerate(texts)],
        "20 % of words substituted": [substituted(text, 0.2, words, at) for at, text in enumerate(texts)],
        "30 % of words substituted": [substituted(text, 0.3, words, at) for at, text in enumerate(texts)],
        PASTED: [pasted(text, human[at % len(human)]) for at, text in enumerate(texts)],
    }
    for name, edited in edits.items():
        found.rows.append((name, *_count(served.decode(edited, top=1), found.messages), len(edited)))
    found.perplexity = _perplexities(served, found)
    return found


def _count(readings: Sequence[Json], messages: Sequence[int]) -> tuple[int, int]:
    """(the likeliest message is the embedded one, the verdict is `marked` with it)."""
    pairs = list(zip(readings, messages, strict=True))
    likeliest = sum(reading["segments"][0]["message"] == message for reading, message in pairs)
    return likeliest, sum(
        reading["verdict"] == "marked" and reading["message"] == message for reading, message in pairs
    )


def _perplexities(served: Served, found: Recovery) -> tuple[float, float]:
    """Over all tokens of MORE texts for every prompt, by the generator itself: unmarked, marked."""
    prompts, plain, marked = [*PROMPTS] * MORE, list[Json](), found.marked[: len(PROMPTS)]
    for at in range(MORE):
        plain += served.texts(PROMPTS, [None] * len(PROMPTS), seed=1000 * (at + 1))
    for at in range(1, MORE):
        marked += served.texts(PROMPTS, found.messages[: len(PROMPTS)], seed=1000 * (at + 1) + 50)
    perplexities = []
    for texts in (plain, marked):
        scores = [
            value
            for prompt, one in zip(prompts, texts, strict=True)
            for value in served.log_probabilities(prompt, one["text"])
        ]
        perplexities.append(math.exp(-sum(scores) / len(scores)))
    return perplexities[0], perplexities[1]


@dataclass
class FalseAlarms:
    """Unmarked texts by corpus (texts, too short, marked), their p-values, and alarms under other circumstances."""

    corpora: list[tuple[str, int, int, int]] = field(default_factory=list)
    p_values: list[float] = field(default_factory=list)
    others: list[tuple[str, int, int]] = field(default_factory=list)  # what was tried, readings, marked

    @property
    def texts(self) -> int:
        return sum(row[1] for row in self.corpora)

    @property
    def marked(self) -> int:
        return sum(row[3] for row in self.corpora)

    @property
    def uniform(self) -> float:
        """p of the Kolmogorov-Smirnov test that the p-values are even between 0 and 1."""
        return float(kstest(self.p_values, "uniform").pvalue)


def alarm(served: Served, corpora: Sequence[Corpus], recovery: Recovery, keys: Sequence[str]) -> FalseAlarms:
    """Read unmarked texts under the key that marks, and under all keys; and marked texts for other messages."""
    found = FalseAlarms()
    for corpus in corpora:
        readings = served.decode(corpus.texts, key_id=keys[0], top=1)
        short, marked = _verdicts(readings)
        found.corpora.append((corpus.name, len(readings), short, marked))
        found.p_values += [reading["p_value"] for reading in readings]
    some = [text for corpus in corpora for text in corpus.texts[:20]]
    found.others.append(("human texts, all keys tried", len(some), _verdicts(served.decode(some, top=1))[1]))
    asked = len(recovery.marked) * WRONG_MESSAGES
    found.others.append(("marked texts, other messages", asked, _others(served, recovery, keys[0])))
    return found


@dataclass
class WrongKeys:
    """Marked texts read under keys that did not mark them, each key alone."""

    readings: int = 0
    marked: int = 0


def misread(served: Served, recovery: Recovery, keys: Sequence[str]) -> WrongKeys:
    """Read every marked text under every wrong key."""
    texts, found = [one["text"] for one in recovery.marked], WrongKeys()
    for key in keys:
        found.readings += len(texts)
        found.marked += _verdicts(served.decode(texts, key_id=key, top=1))[1]
    return found


def _others(served: Served, recovery: Recovery, key: str) -> int:
    """How often one arbitrary message that was not embedded is found in a marked text, each asked about alone."""
    draw, alarms = random.Random(MESSAGES_SEED + 1), 0
    for _ in range(WRONG_MESSAGES):
        for one, embedded in zip(recovery.marked, recovery.messages, strict=True):
            other = (embedded + draw.randrange(1, 1 << 20)) % (1 << 20)
            alarms += _verdicts(served.decode([one["text"]], key_id=key, candidates=[other]))[1]
    return alarms


def _verdicts(readings: Sequence[Json]) -> tuple[int, int]:
    """(too short, marked)."""
    verdicts = [reading["verdict"] for reading in readings]
    return verdicts.count("too_short"), verdicts.count("marked")
