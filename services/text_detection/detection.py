"""One detector at work: texts in, answers about them out, whoever is asked about them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from models.dna_gpt.detector import DetectorSpec, Mode
from services.core.call import Call
from services.core.errors import ApiError
from services.generation.pool import EngineHold
from services.text_detection.answer import judged_text, refused_text
from services.text_detection.asking import Asked, Asker, Work, together
from services.text_detection.black_box import BlackBox
from services.text_detection.judging import Prepared, judge, prepare
from services.text_detection.request import DetectRequest, SentText
from services.text_detection.upstream import UpstreamOptions
from services.text_detection.white_box import WhiteBox

Json = dict[str, Any]


class Listener(Protocol):
    """Metrics implement this."""

    def answered(self, mode: str, verdict: str, regenerations: int, failures: Mapping[str, int]) -> None:
        """One text: what was said, regenerations that were used, and by reason those that did not come."""


class Nobody:
    """Listens to nothing."""

    def answered(self, mode: str, verdict: str, regenerations: int, failures: Mapping[str, int]) -> None: ...


class Detection:
    """Answers requests by the language model that is held, and by the operator's endpoint if there is one.

    spec  may be exchanged for one with other thresholds
    """

    def __init__(
        self, spec: DetectorSpec, hold: EngineHold, upstream: UpstreamOptions | None, listener: Listener
    ) -> None:
        self.spec = spec
        white = WhiteBox(hold, spec)
        self._askers: dict[Mode, Asker] = {"white_box": white}
        if upstream is not None:
            self._askers["black_box"] = BlackBox(upstream, spec)
        self._tokenizer = hold.engine.tokenizer.literal()
        self._context = white.context
        self._slots = hold.engine.options.slots
        self._listener = listener
        self._answering = 0
        self._idle = asyncio.Event()

    @property
    def modes(self) -> list[Mode]:
        """Those that can be asked for."""
        return list(self._askers)

    async def answer(self, request: DetectRequest, call: Call) -> Json:
        """Answers about all texts of a request, in order. Raises ApiError."""
        asker, work = self.asker(request.mode), Work()
        places = asyncio.Semaphore(self.texts_at_once(request.regenerations))
        with self._busy():
            texts = await together(self._one(sent, request, asker, call, work, places) for sent in request.texts)
        work.finish(call)
        return {
            "mode": request.mode,
            "generator": vars(self.spec.generator) | {"upstream": asker.upstream or None},
            "partial": any(text["regenerations"]["failures"] for text in texts),
            "texts": texts,
        }

    def texts_at_once(self, regenerations: int) -> int:
        """Texts whose regenerations fill the engine's slots: more would only wait."""
        return max(1, self._slots // max(1, regenerations))

    async def ask(self, text: str, mode: Mode, regenerations: int, call: Call) -> tuple[Prepared, Asked | None]:
        """What a text's answer would rest on; None where nothing can be said about it."""
        prepared = await self._prepared(text)
        if prepared.parts is None:
            return prepared, None
        return prepared, await self.asker(mode).ask(prepared.parts, regenerations, call, Work())

    async def close(self) -> None:
        """Finish the requests there are, which ask in several steps; then let go of the engine."""
        while self._answering:
            self._idle.clear()
            await self._idle.wait()
        for asker in self._askers.values():
            await asker.close()

    def asker(self, mode: Mode) -> Asker:
        """Whoever is asked in this mode. Raises ApiError where there is nobody."""
        asker = self._askers.get(mode)
        if asker is None:
            raise ApiError(
                "not_supported",
                f"mode {mode}: this server knows no endpoint to ask",
                field="mode",
                hint="the operator sets text_detect_upstream_url and text_detect_upstream_model; or use white_box",
            )
        return asker

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._answering += 1
        try:
            yield
        finally:
            self._answering -= 1
            self._idle.set()

    async def _one(
        self, sent: SentText, request: DetectRequest, asker: Asker, call: Call, work: Work, places: asyncio.Semaphore
    ) -> Json:
        """The answer about one text; a few of a request at a time, so that it leaves room for others."""
        async with places:
            prepared = await self._prepared(sent.text)
            failures: Mapping[str, int] = Counter()
            if prepared.parts is None:
                answer = refused_text(sent, prepared, request)
            else:
                asked = await asker.ask(prepared.parts, request.regenerations, call, work)
                failures = asked.failures
                answer = await asyncio.to_thread(self._judged, sent, prepared, asked, request, asker.upstream)
        self._listener.answered(request.mode, answer["verdict"], answer["regenerations"]["used"], failures)
        return answer

    async def _prepared(self, text: str) -> Prepared:
        return await asyncio.to_thread(prepare, text, self.spec, self._tokenizer, self._context)

    def _judged(self, sent: SentText, prepared: Prepared, asked: Asked, request: DetectRequest, upstream: str) -> Json:
        scores = asked.reading.scores()
        judged = judge(prepared, asked, scores, request, self.spec, upstream)
        return judged_text(sent, prepared, asked, judged, scores, request)
