"""Engines for tests, requests in one line, and what an answer amounts to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from services.core.call import Call
from services.generation.engine import Engine
from services.generation.generation import Generation
from services.generation.observer import Load
from services.generation.onnx_backend import OnnxBackend
from services.generation.options import EngineOptions
from services.generation.request import GenerationRequest, Piece, Sampling

GREEDY = Sampling(temperature=0)
StartEngine = Callable[..., AbstractAsyncContextManager["Asker"]]
OpenGraph = Callable[..., OnnxBackend]


@dataclass
class Tally:
    """An observer that remembers."""

    loads: list[Load] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    tokens: int = 0
    intervals: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    prefixes: list[tuple[int, int]] = field(default_factory=list)
    circuits: list[bool] = field(default_factory=list)

    def load(self, load: Load) -> None:
        self.loads.append(load)

    def step(self, prompt_tokens: int, tokens: int, intervals: Sequence[float], first: Sequence[float]) -> None:
        self.prompt_tokens += prompt_tokens
        self.tokens += tokens
        self.intervals += intervals
        self.firsts += first

    def prefix(self, prompt_tokens: int, cached_tokens: int) -> None:
        self.prefixes.append((prompt_tokens, cached_tokens))

    def finished(self, outcome: str) -> None:
        self.outcomes.append(outcome)

    def circuit(self, is_open: bool) -> None:
        self.circuits.append(is_open)


@dataclass
class Asker:
    """An engine, its observer, and a way to ask it."""

    engine: Engine
    tally: Tally
    backend: Any

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int = 8,
        *,
        deadline_s: float | None = None,
        interactive: bool = True,
        **options: Any,
    ) -> Generation:
        call = Call("/v1/completions", "http", "r", None if deadline_s is None else perf_counter() + deadline_s)
        call.interactive = interactive
        options.setdefault("sampling", GREEDY)
        return self.engine.submit(GenerationRequest(prompt=tuple(prompt), max_tokens=max_tokens, **options), call)

    async def ask(self, prompt: Sequence[int], max_tokens: int = 8, **options: Any) -> Answer:
        generation = self.submit(prompt, max_tokens, **options)
        return await answer_of(generation)


@dataclass
class Answer:
    """All pieces together."""

    generation: Generation
    pieces: list[Piece]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def tokens(self) -> list[int]:
        return [token for piece in self.pieces for token in piece.tokens]

    @property
    def logprobs(self) -> list[float]:
        return [score.logprob for piece in self.pieces for score in piece.scores]

    @property
    def reason(self) -> str | None:
        return self.pieces[-1].finish_reason


async def answer_of(generation: Generation) -> Answer:
    """Read it to its end."""
    return Answer(generation, [piece async for piece in generation])


@asynccontextmanager
async def running_engine(backend: Any, tokenizer: Any, spec: Any, **options: Any) -> AsyncIterator[Asker]:
    """Closed at the end. max_queue and the like: EngineOptions."""
    tally = Tally()
    engine = Engine(backend, tokenizer, spec, EngineOptions(slots=backend.slots, **options), tally)
    try:
        yield Asker(engine, tally, backend)
    finally:
        await engine.close()
