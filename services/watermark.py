"""Codable watermarks: messages woven into generated text, and read from text, by Balance-Marking.

Start it alone with `pressroom serve watermark` or `bentoml serve services.watermark:Watermark`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from export.artifact import EXAMPLE, Artifact, ArtifactError
from models.errors import InputError
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.model import Json, ServedModel, Task
from services.core.settings import Settings
from services.generation.pool import EnginePool
from services.marking.asking import REGISTERED, DecodeAsked, read_decode, read_verify
from services.marking.desk import Desk
from services.marking.generating import MarkedText, read_generator
from services.marking.keys import MarkingKey
from services.marking.marking import of_this_process
from services.marking.processor import metrics_of
from services.marking.reading import Reader
from services.marking.scheme import FAMILY, LoadedScheme, described
from services.watermark_schema import (
    DECODE_EXAMPLE,
    GENERATE_EXAMPLE,
    VERIFY_EXAMPLE,
    DecodeRequest,
    DecodeResponse,
    GenerateRequest,
    GenerateResponse,
    VerifyRequest,
    VerifyResponse,
)

GENERATE_ROUTE, DECODE_ROUTE, VERIFY_ROUTE = (f"/v1/watermark/{task}" for task in ("generate", "decode", "verify"))
ROUTES = (GENERATE_ROUTE, DECODE_ROUTE, VERIFY_ROUTE)
MOST_WAITING = 512  # texts
_CLOSING: set[asyncio.Task[None]] = set()


class WatermarkModel(ServedModel):
    """One served scheme. Its requests hold texts of others: they are never written down."""

    private = True

    def __init__(self, artifact: Artifact, scheme: LoadedScheme, settings: Settings, engines: EnginePool) -> None:
        super().__init__(artifact)
        self._scheme, self._marking = scheme, of_this_process()
        self.watermark_metrics = metrics_of(self.name, self.version)
        self._reader = Reader(
            scheme=scheme,
            registry=self._marking.registry,
            tokenizer=scheme.tokenizer.literal(),
            threads=settings.threads,
            most_tokens=settings.watermark_decode_tokens,
        )
        limit = settings.watermark_decodes_per_minute
        most = min(MOST_WAITING, settings.max_queue_rows)
        self._desk = Desk(most, max(1, limit // settings.workers) if limit else 0, self.metrics)
        self._text: MarkedText | None = None
        if not settings.watermark_decode_only:
            named = read_generator(artifact.manifest.settings)
            self._text = MarkedText(named, scheme, self._marking, settings, engines)

    async def answer(self, request: Json, call: Call) -> Json:
        """The answer of any of the three routes; inside a tensor, the request's own fields tell which is meant."""
        route = call.route if call.route in ROUTES else _route_of(request)
        if route == GENERATE_ROUTE:
            return await self._generate(request, call)
        return {"results": await (self._decode if route == DECODE_ROUTE else self._verify)(request, call)}

    async def warm_up(self) -> None:
        """Read the artifact's example under its public key: the reading must be the artifact's own."""
        example = self.artifact.read_json(EXAMPLE)
        key = MarkingKey("example", example["key"])
        [ids] = self._reader.tokens([example["request"]["text"]])
        plain = self._scheme.decoder(key, 1, threads=self._reader.threads)
        reading = await asyncio.to_thread(plain.read, ids)
        got, expected = reading.segments[0], example["response"]
        same = (reading.verdict, got.message, got.scored, got.unique) == tuple(
            expected[name] for name in ("verdict", "message", "scored", "unique")
        )
        if not same or not np.isclose(reading.p_value, expected["p_value"], **example["tolerance"]):
            raise self.not_reproduced()

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        """Of readings: every p-value and count; of a generated text: its characters."""
        if "text" in answer:
            return np.array([float(ord(character)) for character in answer["text"]])
        found: list[float] = []
        for result in answer["results"]:
            parts = result.get("segments") or result["checks"]
            found += [result["p_value"], *(part["count"] for part in parts)]
        return np.array(found, dtype=np.float64)

    def describe(self) -> Json:
        return super().describe() | described(self._scheme.scheme)

    def retire(self) -> None:
        """No longer served: what was accepted is finished, then thread and engine are let go."""
        super().retire()
        closing = asyncio.get_running_loop().create_task(self.close())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)

    async def close(self) -> None:
        await self._desk.close()
        if self._text is not None:
            await self._text.close()

    async def _generate(self, request: Json, call: Call) -> Json:
        if self._text is None:
            raise InputError(
                "not_supported", "this server reads watermarks and generates no text", hint="see watermark_decode_only"
            )
        return await self._text.answer(request, call)

    async def _decode(self, request: Json, call: Call) -> list[Json]:
        bits = self._scheme.scheme.message_bits
        asked = read_decode(request, bits)
        keys = self._keys(asked.key_id)
        self._desk.take(len(asked.texts), call)
        texts = await self._tokens(asked.texts)
        among = await asyncio.to_thread(self._candidates, asked)
        shown = asked.texts if asked.marks else [None] * len(texts)
        read = [
            partial(self._reader.decode, ids, keys, asked.bits or bits, among, asked.top, text)
            for ids, text in zip(texts, shown, strict=True)
        ]
        return await self._desk.read([partial(self._counted, one) for one in read], call)

    async def _verify(self, request: Json, call: Call) -> list[Json]:
        asked = read_verify(request)
        keys = self._keys(asked.key_id)
        self._desk.take(len(asked.texts), call)
        texts = await self._tokens(asked.texts)
        expected = [
            await asyncio.to_thread(self._marking.expected, self._scheme, payload, f"expected[{i}]")
            for i, payload in enumerate(asked.expected)
        ]
        read = [partial(self._reader.verify, ids, keys, expected, asked.written) for ids in texts]
        return await self._desk.read([partial(self._counted, one) for one in read], call)

    def _keys(self, key_id: str | None) -> Sequence[MarkingKey]:
        return self._marking.keys.all if key_id is None else (self._marking.key(key_id, "key_id"),)

    async def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return await asyncio.to_thread(self._reader.tokens, texts)

    def _candidates(self, asked: DecodeAsked) -> Sequence[int] | None:
        if asked.candidates == REGISTERED:
            registry = self._marking.required_registry("candidates")
            return registry.messages(self._scheme.scheme.message_bits)
        assert not isinstance(asked.candidates, str)
        return asked.candidates

    def _counted(self, read: Callable[[], Json]) -> Json:
        began = perf_counter()
        found = read()
        self.watermark_metrics.read(found["verdict"], found["tokens"], perf_counter() - began)
        return found


class WatermarkFamily:
    """Loads watermarking schemes. engines: where other families of the process find the engines."""

    name: ClassVar[str] = FAMILY
    tasks: ClassVar[Sequence[Task]] = (
        Task(route=GENERATE_ROUTE, request=GenerateRequest, response=GenerateResponse, example=GENERATE_EXAMPLE),
        Task(route=DECODE_ROUTE, request=DecodeRequest, response=DecodeResponse, example=DECODE_EXAMPLE),
        Task(route=VERIFY_ROUTE, request=VerifyRequest, response=VerifyResponse, example=VERIFY_EXAMPLE),
    )

    def __init__(self, engines: EnginePool | None = None) -> None:
        self._engines = engines or EnginePool()

    def load(self, artifact: Artifact, settings: Settings) -> WatermarkModel:
        scheme = LoadedScheme.of(artifact)
        try:
            return WatermarkModel(artifact, scheme, settings, self._engines)
        except (KeyError, TypeError) as fault:
            raise ArtifactError(
                f"{artifact.tag}: settings name no language model: {fault}", "export it again"
            ) from None


def _route_of(request: Json) -> str:
    if "prompt" in request or "messages" in request:
        return GENERATE_ROUTE
    return VERIFY_ROUTE if "expected" in request else DECODE_ROUTE


@pressroom_service(WatermarkFamily())
class Watermark(ServiceBase):
    """Marks and reads texts by verified schemes."""
