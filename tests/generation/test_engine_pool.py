"""One engine for all who need the same language model: who opens it, who hears it, who closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from export.artifact import Artifact, ArtifactError, read_artifact
from services.core.call import Call
from services.core.errors import ApiError
from services.core.settings import Settings
from services.generation.observer import Load, Unobserved
from services.generation.pool import EngineHold, EnginePool, NamedGenerator
from services.generation.request import GenerationRequest

SETTINGS = Settings(llm_slots=2, llm_prefix_cache_tokens=0)
REQUEST = GenerationRequest(prompt=(1, 2, 3), max_tokens=2)


class Listener(Unobserved):
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.loads: list[Load] = []
        self.tokens = 0

    def load(self, load: Load) -> None:
        self.loads.append(load)

    def step(self, prompt_tokens: int, tokens: int, intervals: Sequence[float], first: Sequence[float]) -> None:
        self.tokens += tokens


@pytest.fixture(scope="module")
def language_model(tiny_llm_home: Path) -> Artifact:
    return read_artifact(tiny_llm_home / "models" / "tiny-fp32" / "1")


async def generate(hold: EngineHold) -> int:
    """Tokens of one short generation."""
    pieces = [piece async for piece in hold.engine.submit(REQUEST, Call("test", "none", "1"))]
    return sum(len(piece.tokens) for piece in pieces)


async def test_the_second_to_ask_gets_the_first_ones_engine(language_model: Artifact) -> None:
    pool, one, other = EnginePool(), Listener(), Listener()
    first, second = (pool.hold(language_model, SETTINGS, listener) for listener in (one, other))
    assert first.engine is second.engine
    assert other.loads[0].slots == 2  # told at once how full it is
    tokens = await generate(first)
    assert one.tokens == other.tokens == tokens > 0
    await asyncio.gather(first.release(), second.release())


async def test_it_runs_until_the_last_one_lets_go(language_model: Artifact) -> None:
    pool, gone = EnginePool(), Listener()
    first, second = pool.hold(language_model, SETTINGS, gone), pool.hold(language_model, SETTINGS, Unobserved())
    await first.release()
    await first.release()  # counts once
    assert await generate(second)
    assert gone.tokens == 0
    await second.release()
    with pytest.raises(ApiError, match="draining"):
        await generate(second)
    third = pool.hold(language_model, SETTINGS, Unobserved())
    assert third.engine is not second.engine
    await third.release()


async def test_another_artifact_or_other_settings_get_an_engine_of_their_own(language_model: Artifact) -> None:
    pool = EnginePool()
    other = replace(language_model, digest="sha256:" + "0" * 64)
    holds = [
        pool.hold(artifact, settings, Unobserved())
        for artifact, settings in (
            (language_model, SETTINGS),
            (other, SETTINGS),
            (language_model, SETTINGS.model_copy(update={"llm_slots": 3})),
        )
    ]
    assert len({id(hold.engine) for hold in holds}) == 3
    await asyncio.gather(*(hold.release() for hold in holds))


async def test_two_threads_that_ask_at_once_open_one_engine(language_model: Artifact) -> None:
    pool = EnginePool()
    holds: list[EngineHold] = []
    threads = [Thread(target=lambda: holds.append(pool.hold(language_model, SETTINGS, Unobserved()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert holds[0].engine is holds[1].engine
    await asyncio.gather(*(hold.release() for hold in holds))


def test_a_generator_of_that_name_but_other_content_is_refused(
    language_model: Artifact, tiny_llm_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.generation.pool.open_artifact", lambda name, version: language_model)
    assert NamedGenerator("tiny-fp32", "1", language_model.digest).open() is language_model
    with pytest.raises(ArtifactError, match="another language model than the one that was meant"):
        NamedGenerator("tiny-fp32", "1", "sha256:" + "1" * 64).open()
