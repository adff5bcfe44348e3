"""Load on a language model: streamed completions, and when their tokens come.

    TTFT   time to first token: from sending to the first event that carries text
    gap    time between two events that carry text (inter-token latency)
    goodput   answers a second whose TTFT and mean gap keep the limits

Every request has a prompt of its own (random words), so that a cache of prompts helps nobody.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any, Self

import orjson

from pressroom.bench_http import LOST, Answered, Outcome
from pressroom.bench_load import Load, Tally
from pressroom.bench_oip import JSON_TYPE
from pressroom.bench_run import Pace, Progress, Result, ask_once, result, settle
from pressroom.bench_stats import Window, percentile
from pressroom.bench_stream import RefusedError, completion_tokens, has_text, stream_events
from pressroom.bench_target import Server

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPTS = 1024  # different ones, in turn
STREAMED = "stream"  # what the wire is called
_WORDS = (
    "the river old house light under green stone letter winter music road window small garden night voice paper sea "
    "morning story bread hand silver clock forest train door rain field summer table bridge city quiet lamp"
)


@dataclass(frozen=True)
class Spoken:
    """One streamed answer: seconds to its first text, between its texts, and its number of tokens."""

    first: float
    gaps: Sequence[float]
    tokens: int

    def keeps(self, ttft: float, gap: float) -> bool:
        """Whether it was fast enough; limits in seconds."""
        mean = sum(self.gaps) / len(self.gaps) if self.gaps else 0.0
        return self.first <= ttft and mean <= gap


@dataclass
class TextWindow(Window):
    """A window of streamed answers; an answer counts where it ends."""

    spoken: list[Spoken] = field(default_factory=list)

    @property
    def tokens_rate(self) -> float:
        """Tokens a second."""
        return sum(one.tokens for one in self.spoken) / self.seconds if self.seconds else 0.0

    def first_ms(self, percent: float) -> float:
        """A percentile of TTFT, ms; NaN of none."""
        return 1e3 * percentile([one.first for one in self.spoken], percent)

    def gap_ms(self, percent: float) -> float:
        """A percentile of all gaps, ms; NaN of none."""
        return 1e3 * percentile([gap for one in self.spoken for gap in one.gaps], percent)

    def good(self, ttft_ms: float, gap_ms: float) -> float:
        """Share of the answers that keep the limits; NaN of none."""
        kept = [one.keeps(ttft_ms / 1e3, gap_ms / 1e3) for one in self.spoken]
        return sum(kept) / len(kept) if kept else float("nan")

    def figures(self, *, closed: bool) -> tuple[float, ...]:
        return (self.percentile_ms(50), self.tokens_rate) if closed else (self.percentile_ms(50),)

    def said(self) -> str:
        return f"{self.tokens_rate:,.0f} tokens/s, TTFT {self.first_ms(50):.0f} ms, gap {self.gap_ms(50):.1f} ms"

    def add(self, other: Self) -> None:
        super().add(other)
        self.spoken += other.spoken


@dataclass(frozen=True, kw_only=True)
class Prompting:
    """What is asked.

    words       of each prompt
    tokens      asked for
    ignore_eos  go on after the model's end token, so that all answers are equally long
    body        a request to send as it is, instead; `stream` is added
    """

    model: str
    chat: bool = False
    words: int = 40
    tokens: int = 64
    ignore_eos: bool = True
    body: dict[str, Any] | None = None

    @property
    def route(self) -> str:
        return CHAT if self.chat else COMPLETIONS

    def requests(self, server: Server, seed: int) -> list[bytes]:
        """Prepared requests."""
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        if self.body is not None:
            bodies = [{"model": self.model, **self.body, **streamed}]
        else:
            choose, words = random.Random(seed), _WORDS.split()
            bodies = [
                {**self._asked(" ".join(choose.choices(words, k=self.words))), **streamed} for _ in range(PROMPTS)
            ]
        return [server.post(self.route, orjson.dumps(body), JSON_TYPE) for body in bodies]

    def _asked(self, prompt: str) -> dict[str, Any]:
        said: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        options = {"max_tokens": self.tokens, "temperature": 0}
        return {"model": self.model, **said, **options, **({"ignore_eos": True} if self.ignore_eos else {})}


class TextLine:
    """One client of a streaming route; the interface of `HttpLine`. Every request has its own connection."""

    usable = True

    def __init__(self, server: Server, tally: Tally | None = None) -> None:
        self._server, self._tally = server, tally
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """A request connects for itself."""

    def ask(self, request: bytes, answered: Answered) -> None:
        """Send; what was spoken goes to the tally's window, then `answered` is called."""
        self._task = asyncio.ensure_future(self._ask(request, answered))

    async def _ask(self, request: bytes, answered: Answered) -> None:
        sent = perf_counter()
        times: list[float] = []
        tokens, failure, said = 0, "", b""
        try:
            async with aclosing(stream_events(self._server, request)) as events:
                async for event in events:
                    tokens = max(tokens, completion_tokens(event))
                    if has_text(event):
                        times.append(perf_counter())
        except RefusedError as refused:
            failure, said = refused.failure, refused.said
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            failure, said = LOST, str(error).encode()
        if not failure and not times:
            failure = "no text"
        if not failure and self._tally is not None and isinstance(self._tally.window, TextWindow):
            gaps = [after - before for before, after in pairwise(times)]
            self._tally.window.spoken.append(Spoken(times[0] - sent, gaps, tokens or len(times)))
        answered(Outcome(failure, b"", said))

    def close(self) -> None:
        """Forget a request on its way."""
        if self._task is not None:
            self._task.cancel()


async def measure_text(
    server: Server, prompting: Prompting, loads: Sequence[Load], pace: Pace, report: Progress
) -> list[Result]:
    """Streamed answers under all loads. Raises ExportError if the first request is not answered."""
    requests = prompting.requests(server, pace.seed)
    await ask_once(lambda: TextLine(server), requests[:1])
    results = []
    for load in loads:
        tally = Tally(requests, TextWindow)

        def make(counted: Tally = tally) -> TextLine:
            return TextLine(server, counted)

        windows = await settle(str(load), tally, load, make, pace, report)
        results.append(result(STREAMED, load, tally, windows, pace))
    return results
