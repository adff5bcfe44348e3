"""Text generation with continuous batching: requests in, streams of pieces out.

The engine lives in the event loop; a `Worker` runs the network in a thread of its own and reports once a step.
A full queue refuses at once, with the time to come back. A model that fails repeatedly is given a pause.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter
from weakref import ref

from models.llm.spec import LanguageModelSpec
from services.core.call import Call
from services.core.circuit import Circuit
from services.core.errors import ApiError
from services.generation.backend import Backend
from services.generation.faults import check_context
from services.generation.generation import Generation
from services.generation.grammar import Grammar, GrammarCompiler
from services.generation.observer import EngineObserver, Load
from services.generation.options import EngineOptions
from services.generation.report import Report
from services.generation.request import GenerationRequest, Piece
from services.generation.sequence import Sequence, make_sequence
from services.generation.tokenizer import Tokenizer
from services.generation.worker import Worker


class Engine:
    """One model's generations. May be made anywhere; used in one event loop at a time.

    context  tokens of prompt and answer of one sequence, at most
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        spec: LanguageModelSpec,
        options: EngineOptions,
        observer: EngineObserver,
    ) -> None:
        self.tokenizer = tokenizer
        self.spec = spec
        self.options = options
        self.circuit = Circuit(options.max_failures, options.cooldown_s)
        kv_tokens = options.kv_tokens or backend.slots * backend.capacity
        self.context = min(backend.capacity, kv_tokens)
        self._places = backend.slots + options.max_queue
        self._observer = observer
        self._end_tokens = frozenset(spec.end_tokens)
        self._grammars = GrammarCompiler(tokenizer, spec)
        self._compiling = ThreadPoolExecutor(1, thread_name_prefix="grammar")
        self._compiles: set[asyncio.Future[Grammar]] = set()
        self._open: set[Sequence] = set()  # those that are not over
        self._closed = False
        self._ended: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._per_second, self._last_end = 1.0, perf_counter()
        self._worker = Worker(backend, options, kv_tokens, self._tell)
        self.load: Load = self._worker.load()  # how full it was after the latest step

    def submit(self, request: GenerationRequest, call: Call) -> Generation:
        """Queue one sequence; call it in the event loop.

        Raises ApiError: queue_full, shutting_down, circuit_open, context_length_exceeded.
        """
        self._check(request)
        self._loop = asyncio.get_running_loop()
        now = perf_counter()
        sequence = make_sequence(request, self.tokenizer, self._end_tokens, now, call.deadline, call.interactive)
        generation = Generation(len(request.prompt), self._canceller(sequence))
        sequence.sink = ref(generation)
        self._open.add(sequence)
        if request.grammar is None:
            self._worker.put(sequence)
        else:
            compiling = self._loop.run_in_executor(self._compiling, self._grammars.compile, request.grammar)
            self._compiles.add(compiling)
            compiling.add_done_callback(lambda done: self._compiled(sequence, done))
        return generation

    async def close(self) -> None:
        """Refuse new work, finish what was accepted, stop the threads."""
        self._loop = asyncio.get_running_loop()
        if self._ended is None:
            self._ended, self._closed = asyncio.Event(), True
            if self._compiles:
                await asyncio.wait(self._compiles)
            self._worker.stop()
        await self._ended.wait()
        self._compiling.shutdown(wait=False)

    def _check(self, request: GenerationRequest) -> None:
        if self._closed:
            raise ApiError("shutting_down", "the server is draining", hint="retry; another replica will answer")
        check_context(request, self.context)
        if len(self._open) >= self._places:
            raise self._full()
        self.circuit.check()

    def _full(self) -> ApiError:
        waiting = len(self._open) - self.options.slots
        wait_ms = math.ceil(min(30.0, max(0.05, waiting / self._per_second)) * 1000)
        return ApiError(
            "queue_full",
            f"{waiting} sequences are waiting, the limit is {self.options.max_queue}",
            hint=f"retry after {wait_ms} ms",
            retry_after_ms=wait_ms,
        )

    def _canceller(self, sequence: Sequence) -> Callable[[], None]:
        def cancel() -> None:
            if sequence in self._open:
                sequence.cancelled = True
                self._worker.put(sequence)
                self._end(sequence, "cancelled")

        return cancel

    def _compiled(self, sequence: Sequence, done: asyncio.Future[Grammar]) -> None:
        self._compiles.discard(done)
        fault = done.exception()
        if fault is None:
            sequence.grammar = done.result()
            self._worker.put(sequence)
        else:
            self._fail(sequence, ApiError.of(fault))

    def _tell(self, report: Report | None) -> None:
        """In the model's thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed: nobody is left to tell
                loop.call_soon_threadsafe(self._deliver, report)

    def _deliver(self, report: Report | None) -> None:
        if report is None:
            if self._ended is not None:
                self._ended.set()
            return
        for sequence in report.began:
            self._begin(sequence)
        for sequence, piece in report.pieces:
            self._hand_out(sequence, piece, report.rows)
        for sequence, fault in report.failed:
            self._fail(sequence, fault)
        self._observer.step(report.prompt_tokens, len(report.pieces), report.intervals, report.firsts)
        if report.load is not None:
            self.load = report.load
            self._observer.load(report.load)

    def _begin(self, sequence: Sequence) -> None:
        self._observer.prefix(len(sequence.prompt), sequence.cached)
        generation = sequence.sink() if sequence.sink is not None else None
        if generation is not None:
            generation.began = sequence.began
            generation.usage.cached_tokens = sequence.cached
            generation.prompt_scores = sequence.prompt_scores

    def _hand_out(self, sequence: Sequence, piece: Piece, rows: int) -> None:
        generation = sequence.sink() if sequence.sink is not None else None
        if generation is not None:
            generation.batch_rows = max(generation.batch_rows, rows)
            generation.deliver(piece)
        if piece.finish_reason is not None and sequence in self._open:
            self._settle(failed=False)
            self._end(sequence, piece.finish_reason)

    def _fail(self, sequence: Sequence, fault: ApiError) -> None:
        if sequence not in self._open:
            return
        if fault.code == "inference_failed":
            self._settle(failed=True)
        generation = sequence.sink() if sequence.sink is not None else None
        if generation is not None:
            generation.fail(fault)
        self._end(sequence, fault.code)

    def _settle(self, *, failed: bool) -> None:
        was_open = self.circuit.is_open
        (self.circuit.failed if failed else self.circuit.succeeded)()
        if self.circuit.is_open != was_open:
            self._observer.circuit(self.circuit.is_open)

    def _end(self, sequence: Sequence, outcome: str) -> None:
        self._open.discard(sequence)
        now = perf_counter()
        self._per_second += 0.2 * (1 / max(now - self._last_end, 1e-3) - self._per_second)
        self._last_end = now
        self._observer.finished(outcome)
