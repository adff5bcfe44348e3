"""Was this text written by a model? DNA-GPT over a served language model, or over the operator's endpoint.

Start it alone with `pressroom serve text-detect` or `bentoml serve services.text_detect:TextDetect`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from export.artifact import EXAMPLE, Artifact, ArtifactError
from models.dna_gpt.detector import DetectorSpec
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.model import Json, ServedModel, Task
from services.core.settings import Settings
from services.generation.pool import EnginePool
from services.text_detect_metrics import DetectMetrics
from services.text_detect_schema import DetectRequest, DetectResponse, example_request
from services.text_detection.detection import Detection
from services.text_detection.generator import hold_generator
from services.text_detection.request import read_request
from services.text_detection.upstream import UpstreamOptions

ROUTE = "/v1/text/detect"
_CLOSING: set[asyncio.Task[None]] = set()


class TextDetectModel(ServedModel):
    """One served detector. Texts of requests are never written down."""

    private: ClassVar[bool] = True

    def __init__(self, artifact: Artifact, spec: DetectorSpec, settings: Settings, engines: EnginePool) -> None:
        super().__init__(artifact)
        upstream = UpstreamOptions.of(settings)
        self.detect_metrics = DetectMetrics(self.name, self.version, self.metrics)
        hold = hold_generator(spec, settings, engines, self.detect_metrics)
        self.detection = Detection(spec, hold, upstream, self.detect_metrics)
        self._most_texts = settings.text_detect_max_texts
        self._timeout_s = settings.llm_timeout_ms / 1000

    async def answer(self, request: Json, call: Call) -> Json:
        """The JSON route; see `services.text_detect_schema`."""
        if call.deadline is not None and not call.named_deadline:
            call.deadline = call.started + self._timeout_s  # text takes longer than other answers
        return await self.detection.answer(read_request(request, self.detection.spec, self._most_texts), call)

    async def warm_up(self) -> None:
        """Answer the artifact's example, which needs no regeneration; then make one."""
        await super().warm_up()
        request = {**self.artifact.read_json(EXAMPLE)["request"], "regenerations": 1}
        (text,) = (await self.answer(request, Call(ROUTE, "none", "warm-up")))["texts"]
        if text["scores"]["w_score"] is None:
            raise self.not_reproduced()

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        """Every score of every text, in the order of the statistics."""
        scores = [value for text in answer["texts"] for value in text["scores"].values() if value is not None]
        return np.array(scores, dtype=np.float64)

    def describe(self) -> Json:
        return super().describe() | {"modes": self.detection.modes}

    def announce(self, routes: list[str]) -> None:
        super().announce(routes)
        self.detect_metrics.begin()

    def retire(self) -> None:
        """No longer served: what was accepted is finished; the engine goes on if another model holds it."""
        super().retire()
        closing = asyncio.get_running_loop().create_task(self.close())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)

    async def close(self) -> None:
        await self.detection.close()


class TextDetectFamily:
    """Loads detectors. engines: where other families of the process find the engines; None: there are none."""

    name: ClassVar[str] = "text-detect"
    tasks: ClassVar[Sequence[Task]] = (
        Task(route=ROUTE, request=DetectRequest, response=DetectResponse, example=example_request()),
    )

    def __init__(self, engines: EnginePool | None = None) -> None:
        self._engines = engines or EnginePool()

    def load(self, artifact: Artifact, settings: Settings) -> TextDetectModel:
        try:
            spec = DetectorSpec.from_settings(artifact.manifest.settings)
        except (KeyError, ValueError, TypeError) as fault:
            raise ArtifactError(f"{artifact.tag}: settings are not a detector's: {fault}", "export it again") from None
        return TextDetectModel(artifact, spec, settings, self._engines)


@pressroom_service(TextDetectFamily())
class TextDetect(ServiceBase):
    """Verdicts on texts, by calibrated detectors."""
