"""A served image model: how one request of any of the four tasks is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from export.artifact import Artifact
from models.clipself.pipeline import detect_task, segment_task, tasks
from models.clipself.pipeline.engine import ARRAYS, Engine, Graphs
from models.clipself.pipeline.image_field import read_image
from models.clipself.pipeline.label_embeddings import LabelEmbedder
from models.clipself.pipeline.network_input import NetworkInput
from models.clipself.pipeline.request import TASKS, Limits, TaskName, check_fields, read_labels
from models.clipself.pipeline.scoring import cosine
from models.clipself.pipeline.spec import DetectSpec
from services.core.batcher import BatchPolicy
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, ServedModel, runtime_options
from services.core.runtime import OnnxRuntime
from services.core.settings import Settings
from services.detect_metrics import DetectMetrics
from services.detection.label_book import LabelBook
from services.detection.queue import ImageQueue

T = TypeVar("T")

ROUTES: dict[TaskName, str] = {name: f"/v1/{name}" for name in TASKS}
_DENSE: dict[TaskName, type[tasks.Task]] = {
    "regions": tasks.Regions,
    "detect": detect_task.Detect,
    "segment": segment_task.Segment,
}


class DetectModel(ServedModel):
    """One served image model: its graphs, its queue of images, its book of labels."""

    policy: BatchPolicy
    native_tensors = ("image",)

    def __init__(self, artifact: Artifact, spec: DetectSpec, settings: Settings) -> None:
        super().__init__(artifact)
        self.spec = spec
        self.detect_metrics = DetectMetrics(self.name, self.version)
        self._limits = Limits(
            max_pixels=settings.detect_max_pixels,
            max_side=settings.detect_max_side,
            max_regions=settings.detect_max_regions,
            max_labels=settings.detect_max_labels,
        )
        options, arrays = runtime_options(settings), load_file(artifact.file(ARRAYS))
        graphs = Graphs.of(
            spec, artifact.manifest.files, lambda name: OnnxRuntime(artifact.file(name), options).run, arrays
        )
        engine = Engine(spec, graphs)
        self.policy = BatchPolicy(
            max_rows=settings.detect_max_images,
            max_delay_ms=settings.max_delay_ms,
            max_queue_rows=settings.detect_max_queue,
            max_failures=settings.max_failures,
            cooldown_s=settings.cooldown_seconds,
        )
        self.queue = ImageQueue(engine, self.policy, self.metrics)
        self.book = LabelBook(LabelEmbedder(engine, arrays), settings.detect_label_cache, self.detect_metrics)
        self._desk = ThreadPoolExecutor(settings.detect_decoders, thread_name_prefix="images")
        self._inside, self._places = 0, settings.detect_max_queue

    async def answer(self, request: Json, call: Call) -> Json:
        """Any of the four tasks: the route's, or inside a tensor the one the field `task` names."""
        name = self._task(request, call)
        check_fields(request, name)
        asked = tasks.Asked(request, self.spec, self._limits, read_labels(request, self.spec, self._limits))
        with self._place():
            return await (self._classify(asked, call) if name == "classify" else self._look(asked, _DENSE[name], call))

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        """Cosines of regions and images, scores and boxes of detections, pixels of segments."""
        if "regions" in answer:
            found = [_cosines(region) for region in answer["regions"]]
        elif "detections" in answer:
            found = [[one["score"], *one["box"].values()] for one in answer["detections"]]
        elif "segments" in answer:
            found = [[one["value"], one["pixels"]] for one in answer["segments"]]
        else:
            found = [_cosines(answer)]
        return np.array([number for row in found for number in row], dtype=np.float64)

    def describe(self) -> Json:
        whole = self.spec.whole_image or None
        return super().describe() | {
            "licence": self.artifact.manifest.official.licence,
            "tasks": [name for name in TASKS if name != "classify" or whole],
            "detector": self.spec.detector is not None,
        }

    def retire(self) -> None:
        super().retire()
        self.detect_metrics.retire()

    async def close(self) -> None:
        await self.queue.close()
        self.book.close()
        self._desk.shutdown(wait=False)

    async def _look(self, asked: tasks.Asked, kind: type[tasks.Task], call: Call) -> Json:
        """Regions, detections or a map: what the dense features say."""

        def opened() -> tasks.Task:
            return kind(asked, self._image(asked))

        task = await self._open(opened)
        rows = await self.book.rows(asked.labels, call, background=kind.background)
        wanted = task.wanted(rows)
        self._count(task.image, len(wanted.boxes if wanted.boxes is not None else ()))
        seen = await self.queue.look(task.image.pixels, wanted, call)
        return task.common() | await self._off_loop(lambda: task.write(seen))

    async def _classify(self, asked: tasks.Asked, call: Call) -> Json:
        task = await self._open(lambda: tasks.Classify.of(asked))
        rows = await self.book.rows(asked.labels, call, background=False)
        embedding = await self.queue.classify(task.pixels, call)
        return task.write(cosine(embedding[None], rows)[0])

    def _image(self, asked: tasks.Asked) -> NetworkInput:
        return read_image(asked.request.get("image"), self._limits, asked.prepare, self.spec)

    async def _open(self, work: Callable[[], T]) -> T:
        began = perf_counter()
        made = await self._off_loop(work)
        self.detect_metrics.opening.observe(perf_counter() - began)
        return made

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Decoding and drawing take too long for the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._desk, work)

    def _count(self, image: NetworkInput, regions: int) -> None:
        self.metrics.padded(3 * (image.side**2 - image.valid[0] * image.valid[1]))
        self.detect_metrics.regions.inc(regions)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A request holds its image from now on, so there are so many and no more. Raises ApiError (queue_full)."""
        if self._inside >= self._places:
            raise ApiError(
                "queue_full", f"{self._inside} images are waiting, the limit is {self._places}",
                hint="retry after 500 ms", retry_after_ms=500,
            )  # fmt: skip
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _task(self, request: Json, call: Call) -> TaskName:
        for name, route in ROUTES.items():
            if call.route == route:
                return name
        named = request.get("task")
        for name in TASKS:
            if named == name:
                return name
        raise ApiError(
            "invalid_request",
            "inside a tensor a request must say its task",
            field="task",
            hint=f"one of {', '.join(TASKS)}",
        )


def _cosines(found: Json) -> list[float]:
    every: list[float] | None = found["cosines"]
    return every if every is not None else [one["cosine"] for one in found["top"]]
