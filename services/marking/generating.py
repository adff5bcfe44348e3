"""Marked text by a scheme's own language model: a completion or a chat whose one answer carries a message."""

from __future__ import annotations

import asyncio
from typing import Any

from export.artifact import Artifact
from services.core.call import Call
from services.core.settings import Settings
from services.generation.observer import Unobserved
from services.generation.opening import TOKENIZER
from services.generation.pool import EnginePool, NamedGenerator, read_spec
from services.generation.processors import Asked, NamedProcessor, ProcessorRegistry, Subject
from services.marking.marking import Marking
from services.marking.processor import NAME, make_processor
from services.marking.scheme import LoadedScheme
from services.openai.answering import Reading, read_request
from services.openai.chat import Chat
from services.openai.chat_template import ChatTemplate
from services.openai.completions import Completions
from services.openai.fields import refuse
from services.openai.job import Job
from services.openai.options import Reader

Json = dict[str, Any]
TEMPLATE, RECEIPT = "chat_template.jinja", "receipt.json"
_ANY_LENGTH = 2**31 - 1
_ELSEWHERE = ("stream", "n", "logprobs", "top_logprobs", "echo", "return_token_ids")


class MarkedText:
    """Generates for one scheme, on the engine that everybody in the process shares."""

    def __init__(
        self, named: NamedGenerator, scheme: LoadedScheme, marking: Marking, settings: Settings, engines: EnginePool
    ) -> None:
        """Raises ArtifactError where the generator is not in the store or cannot be opened."""
        artifact = named.open()
        spec = read_spec(artifact)
        marking.require(spec, artifact.file(TOKENIZER))
        self._scheme, self._marking = scheme, marking
        self._generator = {"name": named.name, "version": named.version, "digest": named.digest}
        self._hold = engines.hold(artifact, settings, Unobserved())
        self._timeout_s = settings.llm_timeout_ms / 1000
        registry = ProcessorRegistry()
        registry.register(NAME, make_processor, self._argument)
        template = _template(artifact)
        subject = Subject(named.name, named.version, named.digest, _receipt_digest(artifact))
        self._reader = Reader(spec, self._hold.engine.tokenizer, template, registry, subject=subject)

    async def answer(self, request: Json, call: Call) -> Json:
        """See `services.watermark_schema.GenerateRequest`. Raises InputError or ApiError."""
        if call.deadline is not None and not call.named_deadline:
            call.deadline = call.started + self._timeout_s
        reading = await asyncio.to_thread(self._read, request)
        with Job(self._hold.engine, reading.prompts, reading.sequences, call) as job:
            async for choice, piece in job.pieces():
                choice.add(piece)
            job.finish()
        return self._answer(reading, job)

    async def close(self) -> None:
        """Let go of the engine."""
        await self._hold.release()

    def _read(self, request: Json) -> Reading:
        for name in _ELSEWHERE:
            if request.get(name) not in (None, False) and not (name == "n" and request[name] == 1):
                hint = "send the field watermark to /v1/completions or /v1/chat/completions for that"
                raise refuse(name, request[name], "nothing: one answer comes, whole", hint)
        if request.get("max_tokens") is None and request.get("max_completion_tokens") is None:
            needed = self._argument(request.get(NAME), Asked(_ANY_LENGTH, 1.0, self._reader.subject))["segments"]
            request = request | {"max_tokens": self._scheme.scheme.tokens_needed(len(needed))}
        route = Chat if "messages" in request else Completions
        reading = read_request(route, request, self._reader, self._hold.engine.context)
        if len(reading.sequences) != 1:
            raise refuse("prompt", request["prompt"], "one prompt", "send one request for each")
        return reading

    def _argument(self, sent: Any, asked: Asked) -> Json:
        return self._marking.argument_of(self._scheme, sent, asked)

    def _answer(self, reading: Reading, job: Job) -> Json:
        [choice], [sequence] = job.choices, reading.sequences
        processor = sequence.processors[0]
        assert isinstance(processor, NamedProcessor)
        argument = processor.argument
        embedded = self._embedded(len(choice.tokens), len(argument["segments"]))
        return {
            "text": choice.text,
            "finish_reason": choice.finish_reason,
            "tokens": len(choice.tokens),
            "prompt_tokens": len(sequence.prompt),
            "segments": len(argument["segments"]),
            "segments_embedded": embedded,
            "fully_embedded": embedded == len(argument["segments"]),
            "key_id": argument["key_id"],
            "delta": argument["delta"],
            "generator": self._generator,
        }

    def _embedded(self, tokens: int, segments: int) -> int:
        counts = range(1, segments + 1)
        return sum(self._scheme.scheme.tokens_needed(count) <= tokens for count in counts)


def read_generator(settings: Json) -> NamedGenerator:
    """The language model a scheme's settings name. Raises KeyError or TypeError where they name none."""
    return NamedGenerator(**settings["generator"])


def _template(artifact: Artifact) -> ChatTemplate | None:
    if TEMPLATE not in artifact.manifest.files:
        return None
    return ChatTemplate.from_file(artifact.file(TEMPLATE), read_spec(artifact))


def _receipt_digest(artifact: Artifact) -> str | None:
    entry = artifact.manifest.files.get(RECEIPT)
    return None if entry is None else f"sha256:{entry.sha256}"
