"""What marking and reading cost the server, in CPU time of its processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.watermark_served import Served
from benchmarks.watermark_texts import PROMPTS

TOKENS = 192
BATCHES = (1, 8)


@dataclass
class Cost:
    """CPU ms a token. plain, marked: by batch, one figure a round; reading: of 20 bits, one figure a round."""

    plain: dict[str, list[float]] = field(default_factory=dict)
    marked: dict[str, list[float]] = field(default_factory=dict)
    reading: list[float] = field(default_factory=list)

    def overhead(self, batch: int) -> float:
        """Tokens a CPU second that marking costs, as a share of the unmarked: median over rounds, side by side."""
        pairs = zip(self.plain[str(batch)], self.marked[str(batch)], strict=True)
        return median(1 - plain / marked for plain, marked in pairs)


def measure(served: Served, texts: Sequence[str], key: str, rounds: int) -> Cost:
    """In turns: unmarked, marked, for one and for eight sequences at once; then readings of marked texts."""
    cost = Cost()
    for batch in BATCHES:
        _generate(served, batch, None, 0)
        for at in range(rounds):
            for message, found in ((None, cost.plain), (613 + at, cost.marked)):
                found.setdefault(str(batch), []).append(_generate(served, batch, message, at))
    for _ in range(rounds):
        before = served.cpu.read()
        readings = served.decode(texts[:8], key_id=key, top=1)
        spent = served.cpu.read().since(before)
        tokens = sum(reading["tokens"] for reading in readings)
        cost.reading.append((spent.workers + spent.supervisor) / tokens * 1e3)
    return cost


def _generate(served: Served, batch: int, message: int | None, seed: int) -> float:
    """CPU ms a token; every text has TOKENS of them."""
    prompts = PROMPTS[:batch]
    before = served.cpu.read()
    served.texts(prompts, [message] * batch, seed=seed, tokens=TOKENS, ignore_eos=True)
    spent = served.cpu.read().since(before)
    return (spent.workers + spent.supervisor) / (TOKENS * batch) * 1e3
