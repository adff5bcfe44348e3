"""Images of several requests together: one pass, one RoIAlign call, and no answer depends on its mates."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from images import NAMES, SCENES, noise, request
from safetensors.numpy import load_file

from export.artifact import Artifact, read_artifact
from models.clipself.pipeline import engine as engine_module
from models.clipself.pipeline.engine import ARRAYS, Engine, Graphs, Wanted
from models.clipself.pipeline.label_embeddings import LabelEmbedder
from models.clipself.pipeline.network_input import prepare
from models.clipself.pipeline.request import Labels
from models.clipself.pipeline.spec import DetectSpec
from services.core.call import Call
from services.core.errors import ApiError
from services.core.runtime import OnnxRuntime, RuntimeOptions
from services.core.settings import Settings
from services.detect_metrics import DetectMetrics
from services.detection.label_book import LabelBook
from services.detection.model import DetectModel

Json = dict[str, Any]
ATOL = 2e-5  # cosines: other sums in other batches


@pytest.fixture(scope="module")
def artifact(clips_home: Path) -> Artifact:
    return read_artifact(clips_home / "models" / "clipself-tiny" / "1")


@pytest.fixture(scope="module")
def engine(artifact: Artifact) -> Engine:
    options = RuntimeOptions()
    spec = DetectSpec.from_settings(artifact.manifest.settings)
    graphs = Graphs.of(
        spec,
        artifact.manifest.files,
        lambda name: OnnxRuntime(artifact.file(name), options).run,
        load_file(artifact.file(ARRAYS)),
    )
    return Engine(spec, graphs)


async def served(artifact: Artifact, **settings: Any) -> DetectModel:
    return DetectModel(artifact, DetectSpec.from_settings(artifact.manifest.settings), Settings(**settings))


def call(route: str = "/v1/regions") -> Call:
    return Call(route, "http", "test")


def labels_of(engine: Engine) -> Any:
    return np.random.default_rng(2).standard_normal((5, engine.spec.embed_dim), dtype=np.float32)


def test_boxes_of_a_batch_share_one_call_and_do_not_mix(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, calls = labels_of(engine), []
    run = engine.graphs.regions

    def counted(tensors: Any) -> Any:
        calls.append(len(tensors["boxes"]))
        return run(tensors)

    monkeypatch.setattr(engine, "graphs", replace(engine.graphs, regions=counted))
    images = [prepare(noise(40 + 9 * i, 60, seed=i), 64, detector=False) for i in range(4)]
    boxes = [np.array([[1, 1, 20 + i, 30]] * i, dtype=np.float32).reshape(-1, 4) for i in range(4)]
    wanted = [Wanted(labels=labels, boxes=b) for b in boxes]
    together = engine.look(np.stack([image.pixels for image in images]), wanted)
    assert calls == [0 + 1 + 2 + 3]
    for image, one, seen in zip(images, wanted, together, strict=True):
        (alone,) = engine.look(image.pixels[None], [one])
        assert seen.regions is not None
        assert alone.regions is not None
        np.testing.assert_allclose(seen.regions, alone.regions, atol=ATOL)


def test_a_large_batch_goes_through_in_bounded_parts(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    run = engine.graphs.vision

    def counted(tensors: Any) -> Any:
        sizes.append(len(tensors["pixels"]))
        return run(tensors)

    monkeypatch.setattr(engine, "graphs", replace(engine.graphs, vision=counted))
    monkeypatch.setattr(engine_module, "PATCHES", 40)  # 4 x 4 patches an image: two at a time
    pixels = np.random.default_rng(0).standard_normal((5, 3, 64, 64), dtype=np.float32)
    seen = engine.look(pixels, [Wanted(labels=labels_of(engine), dense=True)] * 5)
    assert sizes == [2, 2, 1]
    assert [one.dense.shape for one in seen if one.dense is not None] == [(5, 4, 4)] * 5


async def test_requests_that_come_together_are_answered_as_alone(artifact: Artifact) -> None:
    """Sixteen requests of three sizes and all four tasks, at once and one by one."""
    asked: list[tuple[str, Json]] = []
    for i in range(4):
        asked.append(("/v1/regions", request(i, boxes=SCENES[i]["boxes"])))
        asked.append(("/v1/regions", request(i, boxes=SCENES[i]["boxes"], size=64 + 64 * (i % 2))))
        asked.append(("/v1/segment", request(i, output="rle", resolution="grid", labels=NAMES[:4])))
        asked.append(("/v1/classify", request(i, labels=NAMES[i : i + 9])))
    together = await served(artifact)
    alone = await served(artifact, detect_max_images=1)
    try:
        calls = [call(route) for route, _ in asked]
        answers = await asyncio.gather(
            *(together.answer(sent, one) for one, (_, sent) in zip(calls, asked, strict=True))
        )
        assert max(one.batch_rows for one in calls) > 1
        for (route, sent), answer in zip(asked, answers, strict=True):
            expected = await alone.answer(sent, call(route))
            got, wanted = together.numbers(answer), alone.numbers(expected)
            if route == "/v1/segment":
                assert np.abs(got - wanted).sum() <= 4  # a cell between two labels may go either way
            else:
                np.testing.assert_allclose(got, wanted, atol=ATOL)
    finally:
        await together.close()
        await alone.close()


async def test_one_bad_image_does_not_fail_its_mates(artifact: Artifact) -> None:
    model = await served(artifact)
    try:
        good, bad = request(0, boxes=[[0, 0, 9, 9]]), request(0, boxes=[[0, 0, 9, 9]]) | {"image": "AAAA"}
        answers = await asyncio.gather(
            *(model.answer(sent, call()) for sent in (good, bad, good)), return_exceptions=True
        )
        assert [isinstance(answer, Exception) for answer in answers] == [False, True, False]
    finally:
        await model.close()


async def test_more_requests_than_places_are_refused_with_a_time_to_come_back(artifact: Artifact) -> None:
    model = await served(artifact, detect_max_queue=2)
    try:
        sent = request(0, boxes=[[0, 0, 9, 9]])
        answers = await asyncio.gather(*(model.answer(sent, call()) for _ in range(5)), return_exceptions=True)
        full = [answer for answer in answers if isinstance(answer, ApiError)]
        assert [one.code for one in full] == ["queue_full"] * 3
        assert all(one.retry_after_ms for one in full)
        assert isinstance(await model.answer(sent, call()), dict)
    finally:
        await model.close()


async def test_decoding_does_not_hold_up_the_event_loop(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a picture is decoded, the loop goes on turning."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return noise(20, 20)

    monkeypatch.setattr("models.clipself.pipeline.image_field.read_picture", slow)
    model = await served(artifact)
    try:
        task = asyncio.create_task(model.answer(request(0, boxes=[[0, 0, 9, 9]]), call()))
        await asyncio.to_thread(begun.wait, 30)
        assert not task.done()
        go_on.set()
        assert (await task)["image"] == {"width": 20, "height": 20}
    finally:
        await model.close()


class CountingEmbedder:
    """Stands in for the text tower: a row a label, and how often each was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def known(self, label: str, templates: Any) -> Any:
        return None

    def background(self) -> Any:
        return None

    def embed(self, label: str, templates: Any) -> Any:
        self.asked.append(label)
        if label == "broken":
            raise RuntimeError("no such label")
        return np.full(3, len(label), dtype=np.float32)


async def test_a_book_embeds_a_label_once_and_forgets_the_longest_unused() -> None:
    embedder = CountingEmbedder()
    book = LabelBook(embedder, 3, DetectMetrics("book", "1"))  # type: ignore[arg-type]
    try:
        pair = Labels(("a", "bb"), ("{}",))
        rows = await asyncio.gather(*(book.rows(pair, call(), background=True) for _ in range(3)))
        assert rows[0].tolist() == [[1, 1, 1], [2, 2, 2], [10, 10, 10]]  # and the background's
        assert sorted(embedder.asked) == ["a", "background", "bb"]
        await book.rows(Labels(("a", "cccc"), ("{}",)), call(), background=False)
        assert len(book) == 3
        await book.rows(Labels(("a",), ("{}",)), call(), background=False)
        await book.rows(Labels(("bb",), ("{}",)), call(), background=False)  # was the longest unused
        assert embedder.asked.count("a") == 1
        assert embedder.asked.count("bb") == 2
        with pytest.raises(RuntimeError):
            await book.rows(Labels(("broken",), ("{}",)), call(), background=False)
        assert len(book) == 3
    finally:
        book.close()


async def test_labels_that_take_too_long_leave_with_the_deadline() -> None:
    book = LabelBook(CountingEmbedder(), 9, DetectMetrics("late", "1"))  # type: ignore[arg-type]
    late = call()
    late.deadline = late.started - 1
    try:
        with pytest.raises(ApiError) as refusal:
            await book.rows(Labels(("a",), ("{}",)), late, background=False)
        assert refusal.value.code == "deadline_exceeded"
    finally:
        book.close()


def test_an_embedding_is_the_mean_of_its_prompts(artifact: Artifact, engine: Engine) -> None:
    embedder = LabelEmbedder(engine, load_file(artifact.file(ARRAYS)))
    one, two = (embedder.embed("cat", (text,)) for text in ("a photo of a {}.", "the {}"))
    joined = (one + two) / np.linalg.norm(one + two)
    np.testing.assert_allclose(embedder.embed("cat", ("a photo of a {}.", "the {}")), joined, atol=1e-6)
    cut = embedder.embed("cat <end_of_text> dog", ("a photo of a {}.",))
    np.testing.assert_allclose(cut, embedder.embed("cat   dog", ("a photo of a {}.",)), atol=1e-6)
    assert np.abs(cut - one).max() > 1e-3
