"""Batches of patients: bounded by tokens, fair between lengths."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from models.motor.inputs import padded_bag, padded_length
from services.core.batcher import BatchPolicy
from services.core.call import Call
from services.core.tensors import Tensors
from services.ehr_batching import TokenBatcher


class Silent:
    """An observer that needs to know nothing."""

    def queue(self, rows: int) -> None: ...
    def batch(self, rows: int) -> None: ...
    def circuit(self, is_open: bool) -> None: ...


class Recording:
    """A graph that waits for the gate once, and remembers the shape of every batch."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = threading.Event()
        self.shapes: list[tuple[int, int]] = []

    def __call__(self, tensors: Tensors) -> Tensors:
        rows, length, _ = tensors["tokens"].shape
        self.shapes.append((rows, length))
        self.began.set()
        assert self.gate.wait(30)
        return {"features": np.zeros((rows, 1, 1))}


def patient(length: int) -> list[Tensors]:
    return [{"tokens": np.zeros((1, length, 4), dtype=np.int64), "last": np.zeros(1, dtype=np.int64)}]


async def order_of(lengths: list[int], tokens: int = 100, **policy: Any) -> list[tuple[int, int]]:
    """Shapes of the batches that patients who came while one of length 1 was running left in."""
    run = Recording()
    batcher = TokenBatcher(run, BatchPolicy(max_delay_ms=0, **policy), Silent(), tokens)
    first = asyncio.create_task(batcher.submit(patient(1), Call("r", "http", "0")))
    await asyncio.to_thread(run.began.wait, 30)
    others = [asyncio.create_task(batcher.submit(patient(n), Call("r", "http", str(n)))) for n in lengths]
    await asyncio.sleep(0)
    run.gate.set()
    await asyncio.gather(first, *others)
    await batcher.close()
    return run.shapes[1:]


async def test_patients_of_one_length_share_a_batch_within_the_token_budget() -> None:
    assert await order_of([30] * 7) == [(3, 30), (3, 30), (1, 30)]


async def test_rows_bound_a_batch_too() -> None:
    assert await order_of([2] * 10, max_rows=4) == [(4, 2), (4, 2), (2, 2)]


async def test_a_patient_longer_than_the_budget_goes_alone() -> None:
    assert await order_of([5000, 5000]) == [(1, 5000), (1, 5000)]


async def test_a_huge_patient_delays_small_ones_by_one_batch() -> None:
    """Ten huge patients came first; the small ones leave after the first of them, not after the last."""
    shapes = await order_of([5000] * 10 + [8] * 5)
    assert shapes[0] == (1, 5000)
    assert shapes[1] == (5, 8)
    assert shapes[2:] == [(1, 5000)] * 9


async def test_lengths_take_turns_oldest_first() -> None:
    assert [length for _, length in await order_of([60, 60, 60, 80, 90, 60])] == [60, 80, 60, 90, 60, 60]


@pytest.mark.parametrize("length", [1, 8, 9, 12, 13, 100, 991, 5953, 16_221])
def test_padding_is_a_third_at_most(length: int) -> None:
    padded = padded_length(length)
    assert length <= padded <= max(8, length * 1.5)
    assert padded_length(padded) == padded


def test_there_are_few_sizes() -> None:
    assert len({padded_length(n) for n in range(1, 16_000)}) == 23
    assert [padded_bag(n) for n in (1, 2, 4, 5, 9, 17)] == [1, 4, 4, 8, 16, 32]
