"""A caller who goes away between the start of a batch and its first instruction is no failure of the model."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import numpy as np
from live_server import until

from services.core.batcher import Batcher, BatchPolicy
from services.core.call import Call
from services.core.tensors import Tensors


class Silent:
    """An observer that reports to nobody."""

    def queue(self, rows: int) -> None: ...
    def batch(self, rows: int) -> None: ...
    def circuit(self, is_open: bool) -> None: ...


def tensors(value: float) -> Tensors:
    return {"x": np.full((1, 2), value, dtype=np.float32)}


async def test_callers_who_leave_as_their_batch_starts_do_not_open_the_circuit() -> None:
    """Their tensors used to be gone when the model's thread came to read them, which counted as its failure."""
    seen: list[list[str]] = []

    def run(sent: Tensors) -> Tensors:
        seen.append(list(sent))
        return {"y": sent["x"] + 1}

    batcher = Batcher(run, BatchPolicy(max_failures=1), Silent())
    held = threading.Event()
    loop = asyncio.get_running_loop()
    batcher._thread.run(held.wait, 10, loop, lambda *_: None)  # the batch is taken, its thread has not come to it
    leaving = asyncio.ensure_future(batcher.submit([tensors(1)], Call("/", "none", "leaving")))
    await until(lambda: batcher._handed)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    held.set()
    (answer,) = await batcher.submit([tensors(2)], Call("/", "none", "staying"))
    assert (answer["y"] == 3).all()
    assert seen == [["x"], ["x"]]
    assert not batcher.circuit.is_open
    await batcher.close()
