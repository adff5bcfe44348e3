"""Language models, dense or pruned: prompts and chats in, text out, by OpenAI's API.

Start it alone with `pressroom serve llm` or `bentoml serve services.llm:Llm`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from jinja2 import TemplateError

from export.artifact import EXAMPLE, Artifact, ArtifactError
from models.llm.spec import LanguageModelSpec
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.model import Json, ServedModel, Task
from services.core.settings import Settings
from services.generation.opening import TOKENIZER
from services.generation.pool import EnginePool, read_spec
from services.generation.processors import REGISTRY, ProcessorRegistry, Subject
from services.llm_metrics import LlmMetrics
from services.marking.processor import require_marking
from services.openai import schemas
from services.openai.answering import Answering, explained, is_long, read_request
from services.openai.chat import Chat
from services.openai.chat_template import ChatTemplate
from services.openai.completions import Completions
from services.openai.errors import envelope
from services.openai.options import MOST_SEQUENCES, Reader

TEMPLATE, RECEIPT = "chat_template.jinja", "receipt.json"
COMPLETIONS_ROUTE, CHAT_ROUTE = "/v1/completions", "/v1/chat/completions"

_OF_RECEIPT = ("method", "calibration", "perplexity", "total", "size", "speed", "gained", "not_gained")

_CLOSING: set[asyncio.Task[None]] = set()


class LlmModel(ServedModel):
    """One served language model: its engine, and how requests to it are read."""

    def __init__(self, artifact: Artifact, spec: LanguageModelSpec, settings: Settings, engines: EnginePool) -> None:
        super().__init__(artifact)
        template = _template(artifact, spec)
        require_marking(spec, artifact.file(TOKENIZER))
        self.llm_metrics = LlmMetrics(self.name, self.version, self.metrics)
        self._hold = engines.hold(artifact, settings, self.llm_metrics)
        self.engine = self._hold.engine
        self._own_graph = settings.llm_backend == "onnx"
        self._receipt = _receipt(artifact)
        self._timeout_s = settings.llm_timeout_ms / 1000
        places = settings.llm_slots + settings.llm_max_queue
        subject = Subject(self.name, self.version, self.digest, _receipt_digest(artifact))
        self._reader = Reader(spec, self.engine.tokenizer, template, REGISTRY, min(MOST_SEQUENCES, places), subject)

    async def answer(self, request: Json, call: Call) -> Json:
        """The answer of either route, whole; inside a tensor, a request with messages is a chat."""
        with await self._answering(request, call, self._reader) as answering:
            return await answering.whole()

    def explained(self, answer: Json, call: Call) -> Json:
        return explained(answer, call)

    async def stream(self, request: Json, call: Call) -> AsyncGenerator[bytes]:
        events = self._events(request, call)
        return _resumed(await anext(events), events)

    async def warm_up(self) -> None:
        """Answer the artifact's example: its first tokens, as many as any CPU agrees on, must be its own.

        Weights that are not the artifact's (those of `llm_torch_folder`) must agree on the first one.
        """
        example = self.artifact.read_json(EXAMPLE)
        request = {**example["request"], "return_token_ids": True}
        unprocessed = replace(self._reader, registry=ProcessorRegistry())
        with await self._answering(request, Call(COMPLETIONS_ROUTE, "none", "warm-up"), unprocessed) as answering:
            answer = await answering.whole()
        first = example["tolerance"]["first_tokens"] if self._own_graph else 1
        for got, expected in zip(answer["choices"], example["response"]["choices"], strict=True):
            if got["token_ids"][:first] != expected["tokens"][:first]:
                raise self.not_reproduced()

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        """Every choice's text, character by character, then its tokens' log-probabilities if there are any."""
        found: list[float] = []
        for choice in answer["choices"]:
            found += [float(ord(character)) for character in _text(choice)]
            found += _logprobs(choice.get("logprobs") or {})
        return np.array(found, dtype=np.float64)

    def describe(self) -> Json:
        return super().describe() | {"context_length": self.engine.context} | self._receipt

    def announce(self, routes: list[str]) -> None:
        super().announce(routes)
        self.llm_metrics.begin()

    def retire(self) -> None:
        """No longer served: what was accepted is finished, then the engine's thread ends and its memory is free.

        Unless another served model holds the engine too: then it goes on.
        """
        super().retire()
        self.llm_metrics.retire()
        closing = asyncio.get_running_loop().create_task(self.close())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)

    async def close(self) -> None:
        await self._hold.release()

    async def _answering(self, request: Json, call: Call, reader: Reader) -> Answering:
        """Read the request and take it in; what takes long to read does not hold up the others."""
        if call.deadline is not None and not call.named_deadline:
            call.deadline = call.started + self._timeout_s  # text takes longer than other answers
        is_chat = call.route == CHAT_ROUTE or (call.route != COMPLETIONS_ROUTE and "messages" in request)
        read = partial(read_request, Chat if is_chat else Completions, request, reader, self.engine.context)
        reading = await asyncio.to_thread(read) if is_long(request, reader.registry.names) else read()
        return Answering(reading, call, self, self.engine, reader.tokenizer)

    async def _events(self, request: Json, call: Call) -> AsyncGenerator[bytes]:
        with await self._answering(request, call, self._reader) as answering:
            async for event in answering.events():
                yield event


class LlmFamily:
    """Loads language models. engines: where other families of the process find the engines; None: there are none."""

    name: ClassVar[str] = "llm"
    tasks: ClassVar[Sequence[Task]] = (
        Task(
            route=COMPLETIONS_ROUTE,
            request=schemas.CompletionRequest,
            response=schemas.CompletionResponse,
            example=schemas.COMPLETION_EXAMPLE,
            streamed=True,
            envelope=envelope,
        ),
        Task(
            route=CHAT_ROUTE,
            request=schemas.ChatRequest,
            response=schemas.ChatResponse,
            example=schemas.CHAT_EXAMPLE,
            streamed=True,
            envelope=envelope,
        ),
    )

    def __init__(self, engines: EnginePool | None = None) -> None:
        self._engines = engines or EnginePool()

    def load(self, artifact: Artifact, settings: Settings) -> LlmModel:
        return LlmModel(artifact, read_spec(artifact), settings, self._engines)


def _template(artifact: Artifact, spec: LanguageModelSpec) -> ChatTemplate | None:
    if TEMPLATE not in artifact.manifest.files:
        return None
    try:
        return ChatTemplate.from_file(artifact.file(TEMPLATE), spec)
    except TemplateError as fault:
        raise ArtifactError(f"{artifact.tag}: {TEMPLATE} is no template: {fault}", "export it again") from None


def _receipt(artifact: Artifact) -> Json:
    """What pruning did, without the entry for every matrix; nothing for a model that was not pruned here."""
    if RECEIPT not in artifact.manifest.files:
        return {}
    receipt = artifact.read_json(RECEIPT)
    return {"receipt": {name: receipt[name] for name in _OF_RECEIPT if name in receipt}}


def _receipt_digest(artifact: Artifact) -> str | None:
    entry = artifact.manifest.files.get(RECEIPT)
    return None if entry is None else f"sha256:{entry.sha256}"


def _text(choice: Json) -> str:
    text: str = choice["text"] if "text" in choice else choice["message"]["content"]
    return text


def _logprobs(scores: Json) -> list[float]:
    """Of either route's `logprobs`."""
    written = scores.get("token_logprobs") or [entry["logprob"] for entry in scores.get("content") or ()]
    return [value for value in written if value is not None]


async def _resumed(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Events of which the first was taken already."""
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event


@pressroom_service(LlmFamily())
class Llm(ServiceBase):
    """Text from verified artifacts of language models."""
