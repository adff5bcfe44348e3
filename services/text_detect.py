"""Was this text written by a model? DNA-GPT over a served language model, or over the operator's endpoint.

Start it alone with `pressroom serve text-detect` or `bentoml serve services.text_detect:TextDetect`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from export.artifact import EXAMPLE, Artifact, ArtifactError
from models.dna_gpt.detector import DetectorSpec, Mode
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, ServedModel, Task
from services.core.settings import Settings
from services.generation.pool import EngineHold, EnginePool, NamedGenerator
from services.text_detect_metrics import DetectMetrics
from services.text_detect_schema import DetectRequest as RequestSchema
from services.text_detect_schema import DetectResponse, example_request
from services.text_detection.answer import judged_text, refused_text
from services.text_detection.asking import Asked, Asker, Work, together
from services.text_detection.black_box import BlackBox
from services.text_detection.judging import Prepared, judge, prepare
from services.text_detection.request import DetectRequest, SentText, read_request
from services.text_detection.upstream import UpstreamOptions
from services.text_detection.white_box import WhiteBox

ROUTE = "/v1/text/detect"
_OWN_GRAPH = {"llm_backend": "onnx", "llm_torch_folder": ""}  # thresholds hold for the arithmetic they were made with
_CLOSING: set[asyncio.Task[None]] = set()


class TextDetectModel(ServedModel):
    """One served detector. Texts of requests are never written down."""

    private: ClassVar[bool] = True

    def __init__(self, artifact: Artifact, spec: DetectorSpec, settings: Settings, engines: EnginePool) -> None:
        super().__init__(artifact)
        self.spec = spec
        self.detect_metrics = DetectMetrics(self.name, self.version, self.metrics)
        options = UpstreamOptions.of(settings)
        hold = _hold(spec, settings, engines, self.detect_metrics)
        white = WhiteBox(hold, spec)
        self._askers: dict[Mode, Asker] = {"white_box": white}
        if options is not None:
            self._askers["black_box"] = BlackBox(options, spec)
        self._tokenizer = hold.engine.tokenizer.literal()
        self._context = white.context
        self._slots = settings.llm_slots
        self._most_texts = settings.text_detect_max_texts
        self._timeout_s = settings.llm_timeout_ms / 1000

    async def answer(self, request: Json, call: Call) -> Json:
        """The JSON route; see `services.text_detect_schema`."""
        if call.deadline is not None and not call.named_deadline:
            call.deadline = call.started + self._timeout_s  # text takes longer than other answers
        wanted = read_request(request, self.spec, self._most_texts)
        asker, work = self._asker(wanted.mode), Work()
        places = asyncio.Semaphore(max(1, self._slots // max(1, wanted.regenerations)))
        texts = await together(self._one(text, wanted, asker, call, work, places) for text in wanted.texts)
        work.finish(call)
        return {
            "mode": wanted.mode,
            "generator": vars(self.spec.generator) | {"upstream": asker.upstream or None},
            "partial": any(text["regenerations"]["failures"] for text in texts),
            "texts": texts,
        }

    async def warm_up(self) -> None:
        """Answer the artifact's example, which needs no regeneration; then make one."""
        await super().warm_up()
        request = {**self.artifact.read_json(EXAMPLE)["request"], "regenerations": 1}
        (text,) = (await self.answer(request, Call(ROUTE, "none", "warm-up")))["texts"]
        if text["regenerations"]["used"] != 1:
            raise self.not_reproduced()

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        """Every score of every text, in the order of the statistics."""
        scores = [value for text in answer["texts"] for value in text["scores"].values() if value is not None]
        return np.array(scores, dtype=np.float64)

    def describe(self) -> Json:
        return super().describe() | {"modes": list(self._askers)}

    def announce(self, routes: list[str]) -> None:
        super().announce(routes)
        self.detect_metrics.announce()

    def retire(self) -> None:
        """No longer served: what was accepted is finished; the engine goes on if another model holds it."""
        super().retire()
        closing = asyncio.get_running_loop().create_task(self.close())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)

    async def close(self) -> None:
        for asker in self._askers.values():
            await asker.close()

    def _asker(self, mode: Mode) -> Asker:
        asker = self._askers.get(mode)
        if asker is None:
            raise ApiError(
                "not_supported",
                f"mode {mode}: this server knows no endpoint to ask",
                field="mode",
                hint="the operator sets text_detect_upstream_url and text_detect_upstream_model; or use white_box",
            )
        return asker

    async def _one(
        self, sent: SentText, request: DetectRequest, asker: Asker, call: Call, work: Work, places: asyncio.Semaphore
    ) -> Json:
        """The answer about one text; a few of a request at a time, so that it leaves room for others."""
        async with places:
            prepared = await asyncio.to_thread(prepare, sent.text, self.spec, self._tokenizer, self._context)
            if prepared.parts is None:
                answer = refused_text(sent, prepared, request)
            else:
                asked = await asker.ask(prepared.parts, request.regenerations, call, work)
                answer = await asyncio.to_thread(self._judged, sent, prepared, asked, request, asker.upstream)
                for reason, count in asked.failures.items():
                    self.detect_metrics.failed(reason, count)
        self.detect_metrics.answered(request.mode, answer["verdict"], answer["regenerations"]["used"])
        return answer

    def _judged(self, sent: SentText, prepared: Prepared, asked: Asked, request: DetectRequest, upstream: str) -> Json:
        scores = asked.reading.scores()
        judged = judge(prepared, asked, scores, request, self.spec, upstream)
        return judged_text(sent, prepared, asked, judged, scores, request)


class TextDetectFamily:
    """Loads detectors. engines: where other families of the process find the engines; None: there are none."""

    name: ClassVar[str] = "text-detect"
    tasks: ClassVar[Sequence[Task]] = (
        Task(route=ROUTE, request=RequestSchema, response=DetectResponse, example=example_request()),
    )

    def __init__(self, engines: EnginePool | None = None) -> None:
        self._engines = engines or EnginePool()

    def load(self, artifact: Artifact, settings: Settings) -> TextDetectModel:
        try:
            spec = DetectorSpec.from_settings(artifact.manifest.settings)
        except (KeyError, ValueError, TypeError) as fault:
            raise ArtifactError(f"{artifact.tag}: settings are not a detector's: {fault}", "export it again") from None
        return TextDetectModel(artifact, spec, settings, self._engines)


def _hold(spec: DetectorSpec, settings: Settings, engines: EnginePool, observer: Any) -> EngineHold:
    """The engine of the detector's generator, which must be the very artifact the detector was made for."""
    named = spec.generator
    generator = NamedGenerator(named.name, named.version, named.digest).open()
    return engines.hold(generator, settings.model_copy(update=_OWN_GRAPH), observer)


@pressroom_service(TextDetectFamily())
class TextDetect(ServiceBase):
    """Verdicts on texts, by calibrated detectors."""
