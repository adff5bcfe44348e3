"""One request's sequences on the engine: submitted together, followed together, cancelled together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from services.core.call import Call
from services.generation.generation import Generation
from services.generation.request import FinishReason, GenerationRequest, Piece, TokenScore
from services.openai.prompts import Prompt


class Engine(Protocol):
    """What answers sequences: ours (`services.generation.engine`), or another one's adapter."""

    @property
    def context(self) -> int:
        """Tokens of prompt and answer of one sequence, at most."""

    def submit(self, request: GenerationRequest, call: Call) -> Generation:
        """Raises ApiError if the sequence is not taken in."""


@dataclass(slots=True)
class Choice:
    """One answer as it grows: its text so far, its tokens and their scores, why it ended.

    tokens, scores  of a streamed choice: those no event has carried yet
    sent    of a streamed choice: characters its events carried, the echoed prompt included
    begun   of a streamed choice: an event was written
    """

    index: int
    prompt: Prompt
    generation: Generation
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    scores: list[TokenScore] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    sent: int = 0
    begun: bool = False

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.hold(piece)

    def hold(self, piece: Piece) -> None:
        """Add all but the text."""
        self.tokens.extend(piece.tokens)
        self.scores.extend(piece.scores)
        self.finish_reason = piece.finish_reason


class Job:
    """The sequences of one request, in the order of its choices. Use it in `with`: leaving cancels what still runs."""

    def __init__(self, engine: Engine, prompts: Sequence[Prompt], requests: Sequence[GenerationRequest], call: Call):
        """requests: one a choice, equally many for each prompt. Raises what the engine's `submit` raises."""
        each = len(requests) // len(prompts)
        self.choices: list[Choice] = []
        try:
            for index, request in enumerate(requests):
                self.choices.append(Choice(index, prompts[index // each], engine.submit(request, call)))
        except BaseException:
            self.cancel()
            raise
        self._call = call
        self._each = each

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *why: object) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Free every slot that is still held."""
        for choice in self.choices:
            choice.generation.cancel()

    async def pieces(self) -> AsyncGenerator[tuple[Choice, Piece]]:
        """Every choice's pieces as they come; ends when all choices have. Raises ApiError if one fails."""
        if len(self.choices) == 1:
            (choice,) = self.choices
            async for piece in choice.generation:
                yield choice, piece
            return
        arrived: asyncio.Queue[tuple[Choice, Piece] | Exception | None] = asyncio.Queue()
        tasks = [asyncio.create_task(_follow(choice, arrived)) for choice in self.choices]
        try:
            for _ in tasks:
                while (item := await arrived.get()) is not None:
                    if isinstance(item, Exception):
                        raise item
                    yield item
        finally:
            for task in tasks:
                task.cancel()

    def finish(self) -> None:
        """Tell the call when its sequences were queued, begun and over."""
        done = [choice.generation for choice in self.choices]
        submitted, began = min(g.submitted for g in done), min(g.began for g in done)
        self._call.ran(submitted, began, max(g.ended for g in done), max(1, *(g.batch_rows for g in done)))
        self._call.finish()

    def usage(self) -> dict[str, Any]:
        """OpenAI's token counts; a prompt with several choices counts once."""
        usages = [choice.generation.usage for choice in self.choices]
        prompts = sum(u.prompt_tokens for u in usages[:: self._each])
        answers = sum(u.generated_tokens for u in usages)
        cached = sum(u.cached_tokens for u in usages[:: self._each])
        return {
            "prompt_tokens": prompts,
            "completion_tokens": answers,
            "total_tokens": prompts + answers,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


async def _follow(choice: Choice, arrived: asyncio.Queue[tuple[Choice, Piece] | Exception | None]) -> None:
    try:
        async for piece in choice.generation:
            arrived.put_nowait((choice, piece))
    except Exception as fault:
        arrived.put_nowait(fault)
    arrived.put_nowait(None)
