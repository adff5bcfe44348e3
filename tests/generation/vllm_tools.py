"""A stand-in for vLLM's engine: it says what it is told to say, in the shape of vLLM's outputs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

Script = Callable[[tuple[int, ...]], Sequence[Any]]


def output(tokens: Sequence[int], reason: str | None = None, **more: Any) -> SimpleNamespace:
    """One `vllm.RequestOutput` of kind DELTA. more: logprobs, prompt_logprobs, num_cached_tokens."""
    completion = SimpleNamespace(token_ids=list(tokens), finish_reason=reason, logprobs=more.get("logprobs"))
    return SimpleNamespace(
        outputs=[completion],
        prompt_logprobs=more.get("prompt_logprobs"),
        num_cached_tokens=more.get("num_cached_tokens", 0),
    )


def logprobs(**known: float) -> dict[int, SimpleNamespace]:
    """A token's entry, e.g. logprobs(t7=-0.5, t9=-1.0)."""
    return {int(name[1:]): SimpleNamespace(logprob=value) for name, value in known.items()}


@dataclass
class ScriptedClient:
    """Answers with what `script` makes of the prompt; an exception in it is raised, a number is waited for, s.

    asked     (prompt, sampling, grammar) of every request
    aborted   requests that were left before their end
    """

    script: Script
    kv_tokens: int = 1000
    asked: list[tuple[tuple[int, ...], dict[str, Any], str | None]] = field(default_factory=list)
    aborted: int = 0
    ended: bool = False

    async def generate(
        self, prompt: tuple[int, ...], sampling: dict[str, Any], grammar: str | None, name: str
    ) -> AsyncGenerator[Any]:
        self.asked.append((prompt, sampling, grammar))
        try:
            for said in self.script(prompt):
                if isinstance(said, BaseException):
                    raise said
                if isinstance(said, int | float):
                    await asyncio.sleep(said)
                    continue
                await asyncio.sleep(0)
                yield said
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted += 1
            raise

    def shutdown(self) -> None:
        self.ended = True
