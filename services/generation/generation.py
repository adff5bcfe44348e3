"""One answer on its way to whoever asked: an async iterator of pieces, fed once a step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter

from services.core.errors import ApiError
from services.generation.request import FinishReason, Piece, TokenScore, Usage


class Generation:
    """Pieces of one sequence; the iteration ends after the piece with a finish_reason.

    usage          token counts, current at every piece
    prompt_scores  one entry a prompt token after the first; known before the first piece, empty if not asked for
    submitted, began, ended   `time.perf_counter()` of queueing, of leaving the queue, of the last piece
    batch_rows     most sequences that shared a step with this one, itself included

    Iterating raises ApiError where generation failed, or its deadline passed. Lives in the event loop. A generation
    that nobody holds any more, or whose consumer was cancelled, is cancelled.
    """

    def __init__(self, prompt_tokens: int, cancel: Callable[[], None]) -> None:
        self.usage = Usage(prompt_tokens=prompt_tokens)
        self.prompt_scores: list[TokenScore] = []
        self.finish_reason: FinishReason | None = None
        self.submitted = self.began = self.ended = perf_counter()
        self.batch_rows = 0
        self._loop = asyncio.get_running_loop()
        self._cancel = cancel
        self._pieces: deque[Piece] = deque()
        self._fault: ApiError | None = None
        self._over = False  # no piece will be added
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Piece:
        while not self._pieces:
            if self._fault is not None:
                raise self._fault
            if self._over:
                raise StopAsyncIteration
            await self._wait()
        return self._pieces.popleft()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._waiter = None

    def cancel(self) -> None:
        """Stop: the slot is free within one step. Pieces not fetched yet are dropped; the iteration ends."""
        if not self._over:
            self._over = True
            self._cancel()
        self._pieces.clear()
        self._wake()

    async def aclose(self) -> None:
        """`cancel`, for `contextlib.aclosing`."""
        self.cancel()

    def deliver(self, piece: Piece) -> None:
        """The engine's: add a piece."""
        if self._over:
            return
        self._pieces.append(piece)
        self.usage.generated_tokens += len(piece.tokens)
        if piece.finish_reason is not None:
            self._over, self.finish_reason = True, piece.finish_reason
        self.ended = perf_counter()
        self._wake()

    def fail(self, fault: ApiError) -> None:
        """The engine's: end with an error, after the pieces there are."""
        if not self._over:
            self._over, self._fault = True, fault
            self.ended = perf_counter()
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __del__(self) -> None:
        if not self._over:
            with suppress(RuntimeError):  # the loop is closed: its engine is gone as well
                self._loop.call_soon_threadsafe(self._cancel)  # garbage may be collected in any thread
