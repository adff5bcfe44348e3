"""The model's thread: turn after turn, one chunk of one prompt, then one step of all running sequences.

    take in what arrived and who left -> drop what is too late -> admit -> prefill a chunk -> decode a step -> report

A prompt that begins like a past one, or like one that is being worked on, copies that beginning from it; one that is
equal to a running one's copies its logits too. What fails for one sequence (a processor, a grammar, the network on its
row) ends that sequence alone: a step that raises is repeated by halves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter

import numpy as np

from services.core.errors import ApiError
from services.generation.backend import Backend
from services.generation.faults import model_failed, not_chosen
from services.generation.observer import Load
from services.generation.options import EngineOptions
from services.generation.prefix_cache import PrefixCache
from services.generation.report import Report
from services.generation.request import Logits
from services.generation.scheduler import Scheduler
from services.generation.sequence import Sequence

log = logging.getLogger("pressroom.generation")

Row = Logits | BaseException  # a sequence's logits, or why there are none


class Worker:
    """Runs until `stop` was called and all accepted work is done; `tell` is called in its thread.

    kv_tokens  tokens all sequences in slots may hold together
    """

    def __init__(
        self, backend: Backend, options: EngineOptions, kv_tokens: int, tell: Callable[[Report | None], None]
    ) -> None:
        self._backend = backend
        self._chunk = options.prefill_chunk
        self._scheduler = Scheduler(backend, kv_tokens)
        self._prefixes = PrefixCache(backend, options.prefix_tokens)
        self._tell = tell
        self._inbox: SimpleQueue[Sequence | None] = SimpleQueue()
        self._stopping = False
        self._tokens = np.zeros(backend.slots, np.int64)  # of the running: the latest token, not in the cache yet
        self._lengths = np.zeros(backend.slots, np.int64)  # of the running: tokens in the cache
        self._report = Report()
        self._thread = Thread(target=self._run, name="generation", daemon=True)
        self._thread.start()

    def put(self, sequence: Sequence) -> None:
        """Queue a sequence; or, if it is marked cancelled, drop it. From any thread."""
        self._inbox.put(sequence)

    def stop(self) -> None:
        """Finish what was accepted, then tell None and end. From any thread."""
        self._inbox.put(None)

    def load(self) -> Load:
        """How full it is."""
        scheduler = self._scheduler
        return Load(
            len(scheduler.waiting),
            scheduler.admitted,
            self._backend.slots,
            scheduler.reserved,
            scheduler.kv_tokens,
            self._prefixes.held,
        )

    def _run(self) -> None:
        while True:
            self._take_in()
            if self._stopping and not self._scheduler.everyone():
                break
            try:
                self._turn()
            except Exception as fault:
                log.exception("a turn of the engine failed")
                self._give_up(fault)
            self._send()
        self._send()
        self._backend.close()
        tell, self._tell = self._tell, _nobody  # or engine and worker would hold each other until the collector runs
        tell(None)

    def _turn(self) -> None:
        self._drop_late()
        for sequence in self._scheduler.admit():
            sequence.began = perf_counter()
            sequence.held = sequence.cached = self._prefixes.restore(
                sequence.slot, sequence.prompt, sequence.room_to_share
            )
        self._prefill()
        if self._report.pieces:
            self._send()  # a first token does not wait for the others' next
        self._decode()

    def _take_in(self) -> None:
        """What arrived; waits for something if there is nothing to do."""
        idle = not self._scheduler.everyone() and not self._stopping
        if idle:
            self._accept(self._inbox.get())
        while True:
            try:
                self._accept(self._inbox.get_nowait())
            except Empty:
                return

    def _accept(self, sequence: Sequence | None) -> None:
        if sequence is None:
            self._stopping = True
        elif not sequence.cancelled:
            self._scheduler.waiting.add(sequence)
        elif sequence in self._scheduler.everyone():
            self._leave(sequence)
            self._report.cancelled += 1

    def _drop_late(self) -> None:
        now = perf_counter()
        for sequence in self._scheduler.everyone():
            if sequence.deadline is not None and sequence.deadline < now:
                self._fail(
                    sequence, ApiError("deadline_exceeded", "the deadline passed before the answer was complete")
                )

    def _prefill(self) -> None:
        """Begin all that need no computing, and work on one chunk of another prompt."""
        scheduler = self._scheduler
        for sequence in list(scheduler.prefilling):
            if (twin := self._twin(sequence)) is not None and twin.last is not None:
                self._backend.share(twin.slot, sequence.slot, sequence.held, len(sequence.prompt))
                sequence.held = sequence.cached = len(sequence.prompt)
                self._begin(sequence, twin.last)
        if scheduler.prefilling:
            sequence = scheduler.prefilling[0]
            try:
                self._work_on(sequence)
            except Exception as fault:
                log.exception("the model failed on a prompt of %d tokens", len(sequence.prompt))
                self._fail(sequence, model_failed(fault))

    def _twin(self, sequence: Sequence) -> Sequence | None:
        """A running sequence with the same prompt."""
        if sequence.request.prompt_logprobs is not None:
            return None
        prompt = sequence.request.prompt
        return next((other for other in self._scheduler.running if other.request.prompt == prompt), None)

    def _work_on(self, sequence: Sequence) -> None:
        self._share(sequence)
        start, rest = sequence.held, len(sequence.prompt) - sequence.held
        size = rest if rest <= self._chunk + 1 else self._chunk  # no chunk of one token: see Sequence.room_to_share
        every = sequence.request.prompt_logprobs is not None
        logits = self._backend.prefill(sequence.slot, start, sequence.prompt[start : start + size].tolist(), every)
        sequence.score_prompt(logits)
        sequence.held += size
        self._report.prompt_tokens += size
        if size == rest:
            self._begin(sequence, logits[-1].copy())
        else:
            self._scheduler.rotate()

    def _share(self, sequence: Sequence) -> None:
        """Copy what another sequence has computed of the same beginning since."""
        best, most = None, sequence.held
        for other in (*self._scheduler.running, *self._scheduler.prefilling):
            reach = min(other.shareable, sequence.room_to_share)
            if reach > most:
                differs = np.flatnonzero(other.prompt[:reach] != sequence.prompt[:reach])
                agreed = int(differs[0]) if len(differs) else reach
                best, most = (other, agreed) if agreed > most else (best, most)
        if best is not None:
            self._backend.share(best.slot, sequence.slot, sequence.held, most)
            sequence.cached += most - sequence.held
            sequence.held = most

    def _begin(self, sequence: Sequence, logits: Logits) -> None:
        """The prompt is done: its first token, and a place among the running."""
        self._report.began.append(sequence)
        self._scheduler.start(sequence)
        sequence.last = logits
        self._lengths[sequence.slot] = sequence.held
        self._say(sequence, logits.copy())

    def _decode(self) -> None:
        running = list(self._scheduler.running)
        if not running:
            return
        self._report.rows = len(running)
        rows = self._step(len(running))
        self._lengths[: len(running)] += 1
        for sequence in running:  # all of them first: whoever leaves makes another one move, with all it holds
            sequence.held += 1
        for sequence, row in zip(running, rows, strict=True):
            self._say(sequence, row)

    def _step(self, n: int) -> list[Row]:
        """Logits of the running sequences; a row that fails brings a fault."""
        try:
            return list(self._backend.decode(0, self._tokens[:n], self._lengths[:n]))
        except Exception:
            log.exception("a step of %d sequences failed; repeated by halves", n)
            return self._by_halves(0, n)

    def _by_halves(self, first: int, stop: int) -> list[Row]:
        if stop - first > 1:
            middle = (first + stop) // 2
            return self._by_halves(first, middle) + self._by_halves(middle, stop)
        try:
            return [self._backend.decode(first, self._tokens[first:stop], self._lengths[first:stop])[0].copy()]
        except Exception as fault:
            return [fault]

    def _say(self, sequence: Sequence, row: Row) -> None:
        """Choose a sequence's next token and hand it out, or end it with what went wrong."""
        if isinstance(row, BaseException):
            self._fail(sequence, model_failed(row))
            return
        try:
            piece = sequence.advance(row)
        except Exception as fault:
            self._fail(sequence, not_chosen(fault))
            return
        now = perf_counter()
        times = self._report.intervals if sequence.spoke else self._report.firsts
        times.append(now - (sequence.spoke or sequence.submitted))
        sequence.spoke = now
        self._report.pieces.append((sequence, piece))
        if piece.finish_reason is not None:
            self._leave(sequence)
        else:
            self._tokens[sequence.slot] = piece.tokens[0]

    def _fail(self, sequence: Sequence, fault: ApiError) -> None:
        self._report.failed.append((sequence, fault))
        self._leave(sequence)

    def _leave(self, sequence: Sequence) -> None:
        """Give back a sequence's slot; its prompt is remembered."""
        slot = sequence.slot
        if slot >= 0:
            self._prefixes.keep(slot, sequence.prompt, sequence.shareable)
        self._scheduler.remove(sequence)
        if slot >= 0 and slot < len(self._scheduler.running):  # the last one moved here
            moved = len(self._scheduler.running)
            self._tokens[slot], self._lengths[slot] = self._tokens[moved], self._lengths[moved]
        sequence.last = None

    def _give_up(self, fault: BaseException) -> None:
        """Something unforeseen: end everyone, so that nobody waits for ever."""
        for sequence in self._scheduler.clear():
            self._report.failed.append((sequence, model_failed(fault)))

    def _send(self) -> None:
        report, self._report = self._report, Report()
        if not report.is_empty():
            report.load = self.load()
            self._tell(report)


def _nobody(report: Report | None) -> None:
    """Who a worker tells after its last word."""
