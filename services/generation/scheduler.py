"""Who runs, and where: the queue, the memory that is promised, and the slots.

Admission is first come, first served within a priority, `interactive` before `batch`; a `batch` sequence that waited
PATIENCE_S takes turns with interactive ones. Whoever is first waits until there is a slot and memory for its prompt
and the longest answer it may give, and nobody overtakes it; so no sequence is ever thrown out again, and all get
their turn.

Slots 0 .. n-1 are those of the n sequences that decode, in the order of `running`; prompts being worked on lie above.
When one of the n leaves, the last takes its place, and when a prompt is done, it moves to place n: copies of some
megabytes, once a sequence, instead of empty rows in every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter

from services.generation.backend import Backend
from services.generation.sequence import Sequence

PATIENCE_S = 2.0


class Waiting:
    """The queue."""

    def __init__(self) -> None:
        self._interactive: deque[Sequence] = deque()
        self._patient: deque[Sequence] = deque()  # priority `batch`
        self._patient_went = False  # last, and past its patience

    def __len__(self) -> int:
        return len(self._interactive) + len(self._patient)

    def __iter__(self) -> Iterator[Sequence]:
        yield from self._interactive
        yield from self._patient

    def add(self, sequence: Sequence) -> None:
        """To the end of its priority."""
        (self._interactive if sequence.interactive else self._patient).append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """It was cancelled, or its deadline passed."""
        (self._interactive if sequence.interactive else self._patient).remove(sequence)

    def first(self) -> Sequence | None:
        """Whose turn it is."""
        queue = self._turn()
        return queue[0] if queue else None

    def pop(self) -> Sequence:
        """Take the first one out."""
        queue = self._turn()
        self._patient_went = queue is self._patient
        return queue.popleft()

    def _turn(self) -> deque[Sequence]:
        if not self._patient or not self._interactive:
            return self._patient or self._interactive
        overdue = perf_counter() - self._patient[0].submitted > PATIENCE_S
        return self._patient if overdue and not self._patient_went else self._interactive


class Scheduler:
    """Belongs to the model's thread.

    kv_tokens  tokens all admitted sequences may hold together
    """

    def __init__(self, backend: Backend, kv_tokens: int) -> None:
        self.waiting = Waiting()
        self.prefilling: deque[Sequence] = deque()  # next one first
        self.running: list[Sequence] = []  # place = slot
        self.kv_tokens = kv_tokens
        self.reserved = 0
        self._backend = backend

    @property
    def admitted(self) -> int:
        """Sequences that hold a slot."""
        return len(self.running) + len(self.prefilling)

    def everyone(self) -> list[Sequence]:
        """All sequences, running first, waiting last."""
        return [*self.running, *self.prefilling, *self.waiting]

    def admit(self) -> list[Sequence]:
        """Give slots to those whose turn it is, as far as slots and memory go."""
        admitted = []
        while (first := self.waiting.first()) is not None and self._fits(first):
            sequence = self.waiting.pop()
            sequence.slot = self._free_slot()
            self.reserved += sequence.reserved
            self.prefilling.append(sequence)
            admitted.append(sequence)
        return admitted

    def rotate(self) -> None:
        """The next chunk is another prompt's."""
        self.prefilling.rotate(-1)

    def start(self, sequence: Sequence) -> None:
        """Its prompt is done: it decodes from now on."""
        self.prefilling.remove(sequence)
        place = len(self.running)
        other = next((s for s in self.prefilling if s.slot == place), None)
        if other is not None:
            self._backend.swap(place, sequence.slot, max(other.held, sequence.held))
            other.slot = sequence.slot
        elif sequence.slot != place:
            self._backend.move(sequence.slot, place, sequence.held)
            self._backend.release(sequence.slot)
        sequence.slot = place
        self.running.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """It is over, wherever it stands."""
        if sequence.slot < 0:
            self.waiting.remove(sequence)
            return
        self.reserved -= sequence.reserved
        if sequence in self.prefilling:
            self.prefilling.remove(sequence)
            self._backend.release(sequence.slot)
        else:
            self._close_gap(sequence)
        sequence.slot = -1

    def clear(self) -> list[Sequence]:
        """Forget everyone; who that was."""
        everyone = self.everyone()
        self.waiting, self.running, self.reserved = Waiting(), [], 0
        self.prefilling.clear()
        return everyone

    def _close_gap(self, sequence: Sequence) -> None:
        last = self.running.pop()
        if last is not sequence:
            self._backend.move(last.slot, sequence.slot, last.held)
            self.running[sequence.slot] = last
        self._backend.release(last.slot)
        last.slot = sequence.slot

    def _fits(self, sequence: Sequence) -> bool:
        return self.admitted < self._backend.slots and self.reserved + sequence.reserved <= self.kv_tokens

    def _free_slot(self) -> int:
        taken = {sequence.slot for sequence in self.prefilling}
        return next(slot for slot in range(len(self.running), self._backend.slots) if slot not in taken)
