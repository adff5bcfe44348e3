"""A detector as the front ends see it: loaded beside its generator, warmed up, described, let go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from detecting import DETECTOR, GENERATOR, PROSE, Store
from live_server import until

from export.artifact import EXAMPLE, Artifact, ArtifactError
from services.core.call import Call
from services.core.errors import ApiError
from services.core.settings import Settings
from services.generation.pool import EnginePool
from services.llm import LlmFamily
from services.text_detect import ROUTE, TextDetectFamily, TextDetectModel


@dataclass(frozen=True)
class Edited(Artifact):
    """An artifact that says something else in its example."""

    example: Any = None

    def read_json(self, name: str) -> Any:
        return self.example if name == EXAMPLE else super().read_json(name)


def call() -> Call:
    return Call(ROUTE, "http", "id-1")


def load(artifact: Artifact, engines: EnginePool | None = None) -> TextDetectModel:
    return TextDetectFamily(engines).load(artifact, Settings(llm_slots=2))


async def test_its_example_warms_it_up(found_here: Store) -> None:
    for version in ("1", "2"):
        model = found_here.load(version, llm_slots=2)
        await model.warm_up()
        await model.close()


async def test_an_example_it_answers_otherwise_is_refused(found_here: Store) -> None:
    artifact = found_here.read(DETECTOR)
    example = artifact.read_json(EXAMPLE)
    example["response"]["texts"][0]["scores"]["mean_log_prob"] += 1
    model = load(Edited(artifact.path, artifact.manifest, artifact.digest, 0, example))
    with pytest.raises(ArtifactError, match="not reproduced"):
        await model.warm_up()
    await model.close()


async def test_it_shares_the_engine_of_the_language_model_that_is_served(found_here: Store) -> None:
    engines = EnginePool()
    language = LlmFamily(engines).load(found_here.read(GENERATOR), Settings(llm_slots=2))
    detector = load(found_here.read(DETECTOR, "2"), engines)
    assert detector.detection._askers["white_box"]._engine is language.engine  # type: ignore[attr-defined]
    await language.close()
    assert (await detector.answer({"text": PROSE}, call()))["texts"][0]["score"] is not None
    await detector.close()
    with pytest.raises(ApiError, match="draining"):
        await detector.answer({"text": PROSE}, call())


async def test_other_backends_of_the_language_model_do_not_change_its_arithmetic(found_here: Store) -> None:
    model = found_here.load("1", llm_slots=2, llm_backend="torch", llm_torch_folder="/nowhere")
    assert (await model.answer({"text": PROSE}, call()))["texts"][0]["score"] is not None
    await model.close()


def test_settings_that_are_not_a_detectors_are_refused(found_here: Store) -> None:
    artifact = found_here.read(DETECTOR)
    for settings in ({}, {"look_back": 96}, {**artifact.manifest.settings, "ratio": 2}):
        manifest = artifact.manifest.model_copy(update={"settings": settings})
        with pytest.raises(ArtifactError, match="not a detector's"):
            load(replace(artifact, manifest=manifest))


def test_another_generator_under_the_same_name_is_refused(found_here: Store) -> None:
    artifact = found_here.read(DETECTOR)
    generator = {**artifact.manifest.settings["generator"], "digest": "sha256:" + "0" * 64}
    manifest = artifact.manifest.model_copy(update={"settings": {**artifact.manifest.settings, "generator": generator}})
    with pytest.raises(ArtifactError, match="another language model"):
        load(replace(artifact, manifest=manifest))


async def test_a_retired_detector_lets_go_of_its_engine(found_here: Store) -> None:
    model = found_here.load("1", llm_slots=2)
    running = asyncio.create_task(model.answer({"text": PROSE, "regenerations": 4}, call()))
    await until(lambda: model.detection._askers["white_box"]._engine._open, 30)  # type: ignore[attr-defined]
    model.retire()  # while the text is scored; its regenerations are not asked for yet
    assert (await running)["texts"][0]["regenerations"]["used"] == 4
    await model.close()
    with pytest.raises(ApiError, match="draining"):
        await model.answer({"text": PROSE}, call())


async def test_a_cancelled_request_leaves_no_work_behind(found_here: Store) -> None:
    model = found_here.load("1", llm_slots=2)
    running = asyncio.create_task(model.answer({"texts": [PROSE] * 8, "regenerations": 8}, call()))
    await until(lambda: model.detection._askers["white_box"]._engine._open, 30)  # type: ignore[attr-defined]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not model.detection._askers["white_box"]._engine._open, 30)  # type: ignore[attr-defined]
    await model.close()


async def test_a_full_queue_refuses_the_request(found_here: Store) -> None:
    model = found_here.load("1", llm_slots=1, llm_max_queue=1)
    with pytest.raises(ApiError) as caught:
        await model.answer({"text": PROSE, "regenerations": 8}, call())
    assert caught.value.code == "queue_full"
    assert caught.value.retry_after_ms is not None
    await model.close()


async def test_a_deadline_ends_the_request(found_here: Store) -> None:
    model = found_here.load("1", llm_slots=2)
    late = call()
    late.deadline, late.named_deadline = late.started, True
    with pytest.raises(ApiError) as caught:
        await model.answer({"text": PROSE}, late)
    assert caught.value.code == "deadline_exceeded"
    await model.close()


async def test_it_tells_what_it_can_be_asked(found_here: Store) -> None:
    model = found_here.load("2", llm_slots=2)
    told = model.describe()
    assert (told["family"], told["modes"]) == ("text-detect", ["white_box"])
    assert {one["statistic"] for one in told["settings"]["thresholds"]} == {
        "w_score", "curvature", "mean_log_prob", "demo", "notebook", "formula",
    }  # fmt: skip
    assert model.private
    with pytest.raises(ApiError) as caught:
        await model.answer({"text": PROSE, "mode": "black_box"}, call())
    assert (caught.value.code, caught.value.field) == ("not_supported", "mode")
    await model.close()
