"""The process around a generator: tasks come as JSON lines on standard input, answers go as JSON lines to the parent.

Imports the standard library only, so that it runs in every peer's environment. Everything is greedy and goes on after
the model's end token; CPU seconds are read in this process, at the edges of the work.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, TextIO

from benchmarks.cpu import descendants, process_cpu_seconds

Prompt = Sequence[int]


class Peer(ABC):
    """One generator. A subclass streams; one that cannot answers at once and streams everything in one go."""

    @abstractmethod
    async def start(self) -> None:
        """Load; called once, in the event loop that everything else runs in."""

    @abstractmethod
    def versions(self) -> str:
        """Packages and their versions, as for a caption."""

    @abstractmethod
    def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        """Exactly `count` greedy tokens after the prompt, as they come."""

    async def at_once(self, prompts: Sequence[Prompt], count: int) -> list[list[int]]:
        """`count` tokens for each prompt, all submitted at the same moment."""
        return list(await asyncio.gather(*(self._whole(prompt, count) for prompt in prompts)))

    async def _whole(self, prompt: Prompt, count: int) -> list[int]:
        return [token async for tokens in self.stream(prompt, count) for token in tokens]

    def cpu_seconds(self) -> float:
        """CPU time of everything that generates: this process and all below it."""
        return sum(process_cpu_seconds(pid) for pid in (os.getpid(), *descendants(os.getpid())))

    async def close(self) -> None:  # noqa: B027 (most have nothing to release)
        """Release what does not end with this process."""


async def generate(peer: Peer, prompts: Sequence[Prompt], count: int) -> dict[str, Any]:
    """Tokens of every prompt, CPU and wall seconds of it all."""
    began, cpu = time.perf_counter(), peer.cpu_seconds()
    tokens = await peer.at_once(prompts, count)
    return {"tokens": tokens, "cpu": peer.cpu_seconds() - cpu, "seconds": time.perf_counter() - began}


async def first_tokens(peer: Peer, prompts: Sequence[Prompt]) -> list[float]:
    """Wall seconds to the first token of each prompt, one after another."""
    found = []
    for prompt in prompts:
        began = time.perf_counter()
        async with aclosing(peer.stream(prompt, 1)) as stream:
            await anext(stream)
            found.append(time.perf_counter() - began)
            async for _ in stream:
                pass
    return found


async def under_load(peer: Peer, load: Sequence[Prompt], count: int, probes: Sequence[Prompt]) -> list[float]:
    """The same while the answers to `load` are being decoded, `count` tokens each.

    Raises RuntimeError if one of them ended before the last probe.
    """
    decoding = [asyncio.Event() for _ in load]
    running = [asyncio.create_task(_decode(peer, *one, count)) for one in zip(load, decoding, strict=True)]
    try:
        await asyncio.gather(*(one.wait() for one in decoding))
        found = await first_tokens(peer, probes)
        if any(one.done() for one in running):
            raise RuntimeError("the load ended before the last probe")
        return found
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _decode(peer: Peer, prompt: Prompt, decoding: asyncio.Event, count: int) -> None:
    seen = 0
    try:
        async with aclosing(peer.stream(prompt, count)) as stream:
            async for tokens in stream:
                seen += len(tokens)
                if seen > 1:
                    decoding.set()
    finally:
        decoding.set()


async def _answer(peer: Peer, task: dict[str, Any]) -> dict[str, Any]:
    match task:
        case {"do": "generate", "prompts": prompts, "count": count}:
            return await generate(peer, prompts, count)
        case {"do": "first", "probes": probes, "load": [], "count": _}:
            return {"first": await first_tokens(peer, probes)}
        case {"do": "first", "probes": probes, "load": load, "count": count}:
            return {"first": await under_load(peer, load, count, probes)}
        case _:
            raise ValueError(f"no such task: {task}")


async def _serve(peer: Peer, answers: TextIO) -> None:
    """Answer tasks until standard input ends. A failure is an answer, too: {"error": "Type: text"}."""

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        await peer.start()
        say({"versions": peer.versions()})
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                say(await _answer(peer, json.loads(line)))
            except Exception as error:  # the parent decides what a failed measurement means
                say({"error": f"{type(error).__name__}: {error}"})
    finally:
        await peer.close()


def run(peer: Peer) -> None:
    """Serve the parent. Libraries that print do so on standard error, where they cannot break a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(_serve(peer, answers))
