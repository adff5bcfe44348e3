"""A language model as the front ends see it: loaded from an artifact, warmed up, described, compared, let go."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import until
from text_server import CHAT, COMPLETIONS, CONTEXT, FP32

from export.artifact import EXAMPLE, Artifact, ArtifactError, read_artifact
from services.core.call import Call
from services.core.errors import ApiError
from services.core.settings import Settings
from services.llm import RECEIPT, LlmFamily, LlmModel

TALK = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "temperature": 0}


@dataclass(frozen=True)
class Edited(Artifact):
    """An artifact that says something else in some of its JSON files."""

    said: Any = None

    def read_json(self, name: str) -> Any:
        return self.said[name] if name in self.said else super().read_json(name)


@pytest.fixture(scope="module")
def artifact(tiny_llm_home: Path) -> Artifact:
    return read_artifact(tiny_llm_home / "models" / FP32 / "1")


def load(artifact: Artifact, **said: Any) -> LlmModel:
    changed = Edited(artifact.path, artifact.manifest, artifact.digest, artifact.created, said)
    return LlmFamily().load(changed, Settings(llm_slots=2, llm_prefix_cache_tokens=0))


@pytest.fixture
async def model(artifact: Artifact) -> AsyncIterator[LlmModel]:
    loaded = load(artifact)
    yield loaded
    await loaded.close()


def call(route: str = COMPLETIONS) -> Call:
    return Call(route, "http", "id-1")


async def test_the_artifacts_example_warms_it_up(model: LlmModel) -> None:
    await model.warm_up()


async def test_an_example_it_answers_otherwise_is_refused(artifact: Artifact) -> None:
    example = artifact.read_json(EXAMPLE)
    example["response"]["choices"][0]["tokens"][0] += 1
    model = load(artifact, **{EXAMPLE: example})
    with pytest.raises(ArtifactError, match="not reproduced"):
        await model.warm_up()
    await model.close()


async def test_inside_a_tensor_the_body_says_which_route_is_meant(model: LlmModel) -> None:
    infer = "/v2/models/{name}/infer"
    assert (await model.answer(TALK, call(infer)))["object"] == "chat.completion"
    assert (await model.answer({"prompt": "hi", "max_tokens": 2}, call(infer)))["object"] == "text_completion"
    assert (await model.answer(TALK, call(CHAT)))["object"] == "chat.completion"
    with pytest.raises(Exception, match="prompt"):
        await model.answer(TALK, call(COMPLETIONS))


async def test_numbers_are_the_text_and_the_log_probabilities(model: LlmModel) -> None:
    body = {"prompt": "hi", "max_tokens": 5, "temperature": 0, "n": 2, "logprobs": 0, "echo": True}
    answer = await model.answer(body, call())
    numbers, again = model.numbers(answer), model.numbers(await model.answer(body, call()))
    np.testing.assert_array_equal(numbers, again)
    texts = [choice["text"] for choice in answer["choices"]]
    scores = [s for choice in answer["choices"] for s in choice["logprobs"]["token_logprobs"] if s is not None]
    assert len(numbers) == sum(map(len, texts)) + len(scores)
    chat = await model.answer({**TALK, "logprobs": True}, call(CHAT))
    assert len(model.numbers(chat)) == len(chat["choices"][0]["message"]["content"]) + 4


async def test_a_pruned_model_tells_what_pruning_did(artifact: Artifact) -> None:
    receipt = {"format": 1, "perplexity": {"dense": 31.0, "pruned": 154.0}, "gained": [], "matrices": [{}] * 210}
    files = artifact.manifest.files | {RECEIPT: artifact.manifest.files[EXAMPLE]}
    manifest = artifact.manifest.model_copy(update={"files": files})
    dense, pruned = load(artifact), load(replace(artifact, manifest=manifest), **{RECEIPT: receipt})
    assert "receipt" not in dense.describe()
    assert pruned.describe()["receipt"] == {"perplexity": receipt["perplexity"], "gained": []}
    assert pruned.describe()["context_length"] == CONTEXT
    await asyncio.gather(dense.close(), pruned.close())


async def test_a_call_without_a_deadline_of_its_own_gets_the_time_text_takes(model: LlmModel) -> None:
    ours, theirs = call(), call()
    ours.deadline = ours.started + 30
    theirs.deadline, theirs.named_deadline = theirs.started + 30, True
    for one in (ours, theirs):
        await model.answer({"prompt": "hi", "max_tokens": 1}, one)
    assert ours.deadline - ours.started == pytest.approx(300)
    assert theirs.deadline - theirs.started == pytest.approx(30)


async def test_a_retired_model_finishes_what_it_has_and_takes_nothing_new(artifact: Artifact) -> None:
    model = load(artifact)
    first = call()
    first.model = model
    events = await model.stream({"prompt": "hi", "max_tokens": 60, "ignore_eos": True, "stream": True}, first)
    model.retire()
    await asyncio.sleep(0)  # closing has begun
    with pytest.raises(ApiError) as caught:
        await model.answer({"prompt": "hi", "max_tokens": 1}, call())
    assert caught.value.code == "shutting_down"
    assert [event async for event in events][-1] == b"data: [DONE]\n\n"
    await model.close()


def test_settings_that_are_not_a_language_models_are_refused(artifact: Artifact) -> None:
    manifest = artifact.manifest.model_copy(update={"settings": {"look_back": 96}})
    with pytest.raises(ArtifactError, match="not a language model"):
        LlmFamily().load(Artifact(artifact.path, manifest, artifact.digest, 0), Settings())


async def test_a_retired_model_gives_its_memory_back_without_the_collectors_help(artifact: Artifact) -> None:
    """A worker's collector walks old objects next to never: what holds itself would stay."""
    model = load(artifact)
    await model.answer(TALK, call(CHAT))
    engine = weakref.ref(model.engine)
    gc.disable()
    try:
        model.retire()
        await model.close()
        del model
        await until(lambda: engine() is None, 30)  # its thread has to end first
    finally:
        gc.enable()
