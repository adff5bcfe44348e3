"""From a request of either route to its answer: read, submit, follow, write, whole or as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import TYPE_CHECKING, Any

from services.core.call import Call
from services.core.http.exchange import event
from services.generation.processors import Asked
from services.generation.request import GenerationRequest
from services.generation.tokenizer import Tokenizer
from services.openai.chat import Chat
from services.openai.completions import Completions
from services.openai.constraints import CONSTRAINTS
from services.openai.fields import refuse
from services.openai.job import Engine, Job
from services.openai.options import Options, Reader
from services.openai.prompts import Prompt, answer_tokens

if TYPE_CHECKING:
    from services.core.model import ServedModel

Json = dict[str, Any]
Route = type[Completions] | type[Chat]

END = b"data: [DONE]\n\n"
_SHORT = 8192  # characters or tokens


@dataclass(frozen=True)
class Reading:
    """A request as it was understood: one generation request a choice, equally many for each prompt."""

    route: Route
    prompts: Sequence[Prompt]
    options: Options
    sequences: Sequence[GenerationRequest]


def read_request(route: Route, request: Json, reader: Reader, context: int) -> Reading:
    """Raises InputError or ApiError if the request cannot be used. Takes long for what `is_long`."""
    prompts, options = route.read(request, reader)
    if len(prompts) * options.choices > reader.most_sequences:
        came = f"{options.choices} answers to each of {len(prompts)} prompts"
        expected = f"at most {reader.most_sequences} answers in all, not {came}"
        raise refuse("n", options.choices, expected, "split the request")
    sequences = [one for prompt in prompts for one in _sequences(route, prompt, options, context, reader)]
    return Reading(route, prompts, options, sequences)


def is_long(request: Json, fields: Sequence[str] = ()) -> bool:
    """Whether reading a request may take milliseconds: much text, a grammar to check, a processor to make.

    fields  of registered logits processors
    """
    return any(request.get(name) is not None for name in (*CONSTRAINTS, *fields)) or _length(request) > _SHORT


def _length(value: Any) -> int:
    """Characters and tokens in prompts and messages, roughly: what is long is not walked through."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_length(value.get(name)) for name in ("prompt", "messages", "content", "text"))
    if not isinstance(value, list):
        return 0
    return len(value) + (sum(map(_length, value)) if len(value) <= _SHORT else 0)


class Answering:
    """One request to one model, from its being taken in to its last word. Use it in `with`: leaving frees its slots.

    Raises ApiError if the engine does not take it in.
    """

    def __init__(self, reading: Reading, call: Call, model: ServedModel, engine: Engine, tokenizer: Tokenizer) -> None:
        route, self._options = reading.route, reading.options
        self._shape = route(tokenizer, self._options)
        self._job = Job(engine, reading.prompts, reading.sequences, call)
        self._call = call
        self._head = {
            "id": f"{route.prefix}-{call.request_id}",
            "object": route.name,
            "created": int(time()),
            "model": model.name,
            "system_fingerprint": model.digest,
        }

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *why: object) -> None:
        self._job.cancel()

    async def whole(self) -> Json:
        """The answer in one piece. Raises ApiError."""
        async for choice, piece in self._job.pieces():
            choice.add(piece)
        self._job.finish()
        choices = [self._shape.choice(choice) for choice in self._job.choices]
        return {**self._head, "choices": choices, "usage": self._job.usage()}

    async def events(self) -> AsyncGenerator[bytes]:
        """The answer as events, from the first token on; the last of them explains the call. Raises ApiError."""
        running = len(self._job.choices)
        async for choice, piece in self._job.pieces():
            if not choice.begun:
                choice.begun = True
                for opening in self._shape.opening(choice):
                    yield self._chunk([opening])
            choice.hold(piece)
            if not piece.text and piece.finish_reason is None:
                continue  # its tokens are the beginning of a character, or of a stop string
            delta = self._shape.delta(choice, piece.text)
            choice.tokens, choice.scores = [], []
            running -= piece.finish_reason is not None
            if not running:
                self._job.finish()
            yield self._chunk([delta], last=not running and not self._options.include_usage)
        if self._options.include_usage:
            yield self._chunk([], usage=self._job.usage(), last=True)
        yield END

    def _chunk(self, choices: list[Json], usage: Json | None = None, last: bool = False) -> bytes:
        chunk = {**self._head, "object": self._shape.chunk_name, "choices": choices}
        if self._options.include_usage:
            chunk["usage"] = usage
        return event(explained(chunk, self._call) if last else chunk)


def explained(answer: Json, call: Call) -> Json:
    """An answer with the explanation of its finished call, where OpenAI's clients look past it."""
    return {**answer, "pressroom": call.explanation()}


def _sequences(
    route: Route, prompt: Prompt, options: Options, context: int, reader: Reader
) -> Sequence[GenerationRequest]:
    """One request a choice; choices differ by their seeds, and have logits processors of their own."""
    field = route.prompt_field
    request = GenerationRequest(
        prompt=prompt.tokens,
        max_tokens=answer_tokens(prompt, options.max_tokens, route.default_tokens, context, field),
        stop=options.stop,
        logprobs=options.logprobs,
        prompt_logprobs=options.logprobs if options.echo else None,
        grammar=options.grammar,
        ignore_end=options.ignore_end,
    )
    seed, registry = options.sampling.seed, reader.registry
    asked = Asked(request.max_tokens, options.sampling.temperature, reader.subject)
    arguments = registry.resolve(options.processors, asked)
    return [
        replace(
            request,
            sampling=replace(options.sampling, seed=None if seed is None else seed + i),
            processors=registry.make(arguments, reader.spec, reader.tokenizer),
        )
        for i in range(options.choices)
    ]
