"""A detector without a server: what pressing one and calibrating one need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from models.dna_gpt.detector import DetectorSpec, Mode
from services.core.call import Call
from services.core.settings import Settings
from services.generation.observer import Unobserved
from services.generation.pool import EnginePool
from services.text_detection.asking import Asked, together
from services.text_detection.detection import Detection, Nobody
from services.text_detection.generator import hold_generator
from services.text_detection.judging import Prepared
from services.text_detection.upstream import UpstreamOptions

T = TypeVar("T")
Found = tuple[Prepared, Asked | None]
Progress = Callable[[int, int], None]  # texts done, texts there are


def _silent(done: int, total: int) -> None:
    """Whom progress is told where nobody asks for it."""


def with_detector(spec: DetectorSpec, settings: Settings, work: Callable[[Detection], Awaitable[T]]) -> T:
    """Run `work` in an event loop of its own. Raises ArtifactError where the generator cannot be opened."""

    async def run() -> T:
        async with _opened(spec, settings) as detection:
            return await work(detection)

    return asyncio.run(run())


async def ask_all(
    detection: Detection, texts: Sequence[str], mode: Mode, regenerations: int, progress: Progress = _silent
) -> list[Found]:
    """What every text's answer would rest on, in order. Raises ApiError."""
    at_once = detection.texts_at_once(regenerations)
    found: list[Found] = []
    for at in range(0, len(texts), at_once):
        batch = texts[at : at + at_once]
        found += await together(detection.ask(one, mode, regenerations, _call()) for one in batch)
        progress(len(found), len(texts))
    return found


@asynccontextmanager
async def _opened(spec: DetectorSpec, settings: Settings) -> AsyncIterator[Detection]:
    hold = await asyncio.to_thread(hold_generator, spec, settings, EnginePool(), Unobserved())
    detection = Detection(spec, hold, UpstreamOptions.of(settings), Nobody())
    try:
        yield detection
    finally:
        await detection.close()


def _call() -> Call:
    return Call("local", "none", "local")
