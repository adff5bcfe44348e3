"""The batcher's promises, on a model whose arithmetic is known and whose pace the test controls."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter

import numpy as np
import pytest
from live_server import until

from services.core.batcher import Batcher, BatchPolicy
from services.core.call import Call
from services.core.errors import ApiError
from services.core.job import Job, join


class Recorder:
    """Observer: what the batcher reported."""

    def __init__(self) -> None:
        self.queued: list[int] = []
        self.batches: list[int] = []
        self.circuits: list[bool] = []

    def queue(self, rows: int) -> None:
        self.queued.append(rows)

    def batch(self, rows: int) -> None:
        self.batches.append(rows)

    def circuit(self, is_open: bool) -> None:
        self.circuits.append(is_open)


class Doubler:
    """y = 2x. Waits at the gate before each run; raises on the value 13."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, tensors):
        self.entered.set()
        assert self.gate.wait(10)
        x = tensors["x"]
        self.shapes.append(x.shape)
        if (x == 13).any():
            raise ValueError("unlucky")
        return {"y": 2 * x}


def rows(*values: float, width: int = 3) -> dict[str, np.ndarray]:
    return {"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)}


def call(deadline: float | None = None) -> Call:
    return Call("/test", "none", "id", deadline)


def make(policy: BatchPolicy | None = None) -> tuple[Batcher, Doubler, Recorder]:
    model, recorder = Doubler(), Recorder()
    return Batcher(model, policy or BatchPolicy(max_delay_ms=0), recorder), model, recorder


async def ask(batcher: Batcher, tensors) -> np.ndarray:
    (answer,) = await batcher.submit([tensors], call())
    return answer["y"]


async def hold(batcher: Batcher, model: Doubler) -> asyncio.Task:
    """Occupy the model with one request, so that what follows must queue."""
    model.gate.clear()
    model.entered.clear()
    task = asyncio.create_task(ask(batcher, rows(1)))
    await asyncio.to_thread(model.entered.wait, 10)
    return task


async def test_requests_that_wait_together_run_together_and_each_gets_its_own_rows():
    batcher, model, recorder = make()
    first = await hold(batcher, model)
    waiting = [asyncio.create_task(ask(batcher, rows(i, i + 0.5))) for i in range(5)]
    await until(lambda: recorder.queued[-1] == 10)
    model.gate.set()
    answers = await asyncio.gather(*waiting)
    await first
    assert model.shapes == [(1, 3), (10, 3)]
    for i, answer in enumerate(answers):
        np.testing.assert_array_equal(answer, 2 * rows(i, i + 0.5)["x"])
    assert recorder.batches == [1, 10]
    assert recorder.queued[-1] == 0


async def test_one_failing_request_among_32_fails_alone():
    batcher, model, recorder = make()
    first = await hold(batcher, model)
    values = [float(i) for i in range(32)]  # 13 is the guilty one
    waiting = [asyncio.create_task(ask(batcher, rows(v))) for v in values]
    await until(lambda: recorder.queued[-1] == 32)
    model.gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    await first
    failed = [v for v, a in zip(values, answers, strict=True) if isinstance(a, ApiError)]
    assert failed == [13.0]
    assert answers[13].code == "inference_failed"
    assert "unlucky" not in answers[13].message  # internals stay inside
    for v in values[:13] + values[14:]:
        np.testing.assert_array_equal(answers[int(v)], 2 * rows(v)["x"])


class Stumbling:
    """A waiter that fails when it is told."""

    def done(self):
        return False

    def set_result(self, outputs):
        raise RuntimeError("cannot be told")

    set_exception = set_result


async def test_an_answer_that_cannot_be_handed_over_strands_nobody():
    batcher, model, _ = make()
    first = await hold(batcher, model)
    batcher.put(rows(2), 1, Stumbling(), call())
    batcher.put(rows(3), 1, Stumbling(), call(deadline=perf_counter()))
    mate = asyncio.create_task(ask(batcher, rows(4)))
    await until(lambda: batcher._queued_rows == 3)
    model.gate.set()
    await first
    assert (await mate)[0, 0] == 8
    assert (await ask(batcher, rows(5)))[0, 0] == 10
    await batcher.close()


async def test_different_shapes_never_share_a_batch():
    batcher, model, recorder = make()
    first = await hold(batcher, model)
    waiting = [asyncio.create_task(ask(batcher, rows(i, width=3 + i % 2))) for i in range(6)]
    await until(lambda: recorder.queued[-1] == 6)
    model.gate.set()
    answers = await asyncio.gather(*waiting)
    await first
    assert model.shapes == [(1, 3), (3, 3), (3, 4)]
    assert [a.shape for a in answers] == [(1, 3 + i % 2) for i in range(6)]


async def test_a_request_larger_than_a_batch_is_cut_and_put_together_again():
    batcher, model, _ = make(BatchPolicy(max_rows=4, max_delay_ms=0))
    x = np.arange(30, dtype=np.float32).reshape(10, 3) + 100
    answer = await ask(batcher, {"x": x})
    np.testing.assert_array_equal(answer, 2 * x)
    assert model.shapes == [(4, 3), (4, 3), (2, 3)]


async def test_a_request_of_several_shapes_gets_its_answers_in_order():
    batcher, _, _ = make()
    answers = await batcher.submit([rows(1, width=3), rows(2, 3, width=4)], call())
    assert [a["y"].shape for a in answers] == [(1, 3), (2, 4)]


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back():
    batcher, model, recorder = make(BatchPolicy(max_delay_ms=0, max_queue_rows=4))
    first = await hold(batcher, model)
    waiting = asyncio.create_task(ask(batcher, rows(1, 2, 3, 4)))
    await until(lambda: recorder.queued[-1] == 4)
    with pytest.raises(ApiError) as refused:
        await ask(batcher, rows(5))
    assert refused.value.code == "queue_full"
    assert 0 < refused.value.retry_after_ms <= 30_000
    model.gate.set()
    await asyncio.gather(first, waiting)


async def test_cancelled_work_never_runs_and_frees_its_place():
    batcher, model, recorder = make()
    first = await hold(batcher, model)
    doomed = [asyncio.create_task(ask(batcher, rows(50 + i))) for i in range(3)]
    kept = asyncio.create_task(ask(batcher, rows(7)))
    await until(lambda: recorder.queued[-1] == 4)
    for task in doomed:
        task.cancel()
    await asyncio.gather(*doomed, return_exceptions=True)
    assert recorder.queued[-1] == 1
    model.gate.set()
    await asyncio.gather(first, kept)
    assert model.shapes == [(1, 3), (1, 3)]


async def test_expired_work_never_runs_and_is_answered_at_its_deadline():
    batcher, model, recorder = make()
    first = await hold(batcher, model)
    with pytest.raises(ApiError) as refused:
        await batcher.submit([rows(8)], call(perf_counter() + 0.02))
    assert refused.value.code == "deadline_exceeded"
    assert recorder.queued[-1] == 0
    model.gate.set()
    await first
    assert model.shapes == [(1, 3)]


async def test_closing_answers_everything_accepted_and_refuses_what_comes_after():
    batcher, model, recorder = make()
    first = await hold(batcher, model)
    waiting = asyncio.create_task(ask(batcher, rows(2)))
    await until(lambda: recorder.queued[-1] == 1)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await ask(batcher, rows(3))
    assert refused.value.code == "shutting_down"
    model.gate.set()
    await closing
    assert first.done()
    assert waiting.done()
    np.testing.assert_array_equal(waiting.result(), 2 * rows(2)["x"])


async def test_an_idle_model_does_not_wait_for_company_that_never_came():
    batcher, _, _ = make(BatchPolicy(max_delay_ms=10_000))  # a wait would exceed the test's time
    async with asyncio.timeout(5):
        for i in range(3):
            await ask(batcher, rows(i))


async def test_after_company_it_waits_for_as_many_rows_as_the_last_batch_had():
    batcher, model, recorder = make(BatchPolicy(max_delay_ms=10_000))
    first = await hold(batcher, model)
    waiting = [asyncio.create_task(ask(batcher, rows(i))) for i in range(4)]
    await until(lambda: recorder.queued[-1] == 4)
    model.gate.set()
    await asyncio.gather(first, *waiting)
    again = [asyncio.create_task(ask(batcher, rows(i))) for i in range(3)]
    await until(lambda: recorder.queued[-1] == 3)
    assert len(model.shapes) == 2  # three of four have come: still waiting
    again.append(asyncio.create_task(ask(batcher, rows(9))))
    async with asyncio.timeout(5):
        await asyncio.gather(*again)
    assert model.shapes[-1] == (4, 3)


async def test_half_a_batch_runs_next_without_waiting_for_the_event_loop():
    batcher, model, recorder = make(BatchPolicy(max_rows=4))
    first = await hold(batcher, model)
    waiting = [asyncio.create_task(ask(batcher, rows(i))) for i in range(3)]
    await until(lambda: recorder.queued[-1] == 3)  # two of them, half of four rows, are handed over; all wait
    model.entered.clear()
    model.gate.set()
    assert model.entered.wait(10)  # in the event loop's own thread: nothing that needs the loop happens meanwhile
    answers = await asyncio.gather(*waiting)
    await first
    assert model.shapes == [(1, 3), (2, 3), (1, 3)]
    assert [answer[0, 0] for answer in answers] == [0, 2, 4]
    await batcher.close()


async def test_a_batch_handed_over_is_answered_at_its_deadline_and_waited_for_at_the_end():
    batcher, model, _ = make(BatchPolicy(max_rows=4))
    first = await hold(batcher, model)
    late = [asyncio.create_task(batcher.submit([rows(i)], call(perf_counter() + 0.01))) for i in range(2)]
    await until(lambda: len(batcher._handed) == 2)
    for refusal in await asyncio.gather(*late, return_exceptions=True):
        assert refusal.code == "deadline_exceeded"
    closing = asyncio.create_task(batcher.close())
    await until(lambda: batcher._closed)
    assert not closing.done()
    model.gate.set()
    await asyncio.gather(first, closing)
    assert model.shapes == [(1, 3), (2, 3)]


async def test_nothing_is_handed_over_ahead_of_its_turn_while_batch_requests_wait():
    batcher, model, recorder = make(BatchPolicy(max_rows=4))
    first = await hold(batcher, model)
    patient = [call() for _ in range(2)]
    for one in patient:
        one.interactive = False
    waiting = [asyncio.create_task(batcher.submit([rows(5)], one)) for one in patient]
    await until(lambda: recorder.queued[-1] == 2)
    hasty = call()
    waiting.append(asyncio.create_task(batcher.submit([rows(6, 7, 8, 9)], hasty)))
    await until(lambda: recorder.queued[-1] == 6)
    model.gate.set()
    await asyncio.gather(first, *waiting)
    assert model.shapes == [(1, 3), (4, 3), (2, 3)]
    assert hasty.began < patient[0].began


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8", "u1", "?", "O", "U3", "M8[D]"])
@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 0), (0, 3)])
def test_jobs_are_joined_as_numpy_would(dtype: str, shape: tuple[int, ...]):
    arrays = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for _ in range(3)]
    arrays.append(np.asfortranarray(arrays[0]))
    for some in (arrays[:3], arrays):
        (joined,) = join([Job({"x": array}, len(array), Stumbling()) for array in some]).values()
        assert joined.dtype == some[0].dtype
        np.testing.assert_array_equal(joined, np.concatenate(some))


async def test_batching_switched_off_runs_rows_one_by_one():
    batcher, model, recorder = make(BatchPolicy(max_rows=1, max_delay_ms=0))
    first = await hold(batcher, model)
    waiting = [asyncio.create_task(ask(batcher, rows(i))) for i in range(3)]
    await until(lambda: recorder.queued[-1] == 3)
    model.gate.set()
    await asyncio.gather(first, *waiting)
    assert model.shapes == [(1, 3)] * 4


async def test_stage_times_add_up_to_the_request():
    batcher, _, _ = make()
    one = call()
    await batcher.submit([rows(1)], one)
    one.finish()
    stages = one.stages()
    assert all(seconds >= 0 for seconds in stages.values())
    assert sum(stages.values()) == pytest.approx(one.finished - one.started, abs=1e-9)
    assert one.batch_rows == 1


async def test_interactive_requests_go_before_batch_requests_that_came_earlier():
    batcher, model, recorder = make(BatchPolicy(max_rows=2, max_delay_ms=0))
    first = await hold(batcher, model)
    order: list[str] = []

    async def labelled(label: str, interactive: bool, value: float) -> None:
        one = call()
        one.interactive = interactive
        await batcher.submit([rows(value)], one)
        order.append(label)

    waiting = [asyncio.create_task(labelled(f"batch {i}", False, i)) for i in range(2)]
    await until(lambda: recorder.queued[-1] == 2)
    waiting += [asyncio.create_task(labelled(f"interactive {i}", True, i)) for i in range(2)]
    await until(lambda: recorder.queued[-1] == 4)
    model.gate.set()
    await asyncio.gather(first, *waiting)
    assert [label.split()[0] for label in order] == ["interactive"] * 2 + ["batch"] * 2


async def test_a_batch_request_is_not_passed_over_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("services.core.batcher.PATIENCE_S", 0.0)
    batcher, model, recorder = make(BatchPolicy(max_rows=1, max_delay_ms=0))
    first = await hold(batcher, model)
    patient, hasty = call(), call()
    patient.interactive = False
    waiting = [asyncio.create_task(batcher.submit([rows(6)], hasty))]
    waiting.append(asyncio.create_task(batcher.submit([rows(5)], patient)))
    await until(lambda: recorder.queued[-1] == 2)
    model.gate.set()
    await asyncio.gather(first, *waiting)
    assert patient.began < hasty.began


async def test_a_model_that_fails_again_and_again_is_given_a_pause_and_recovers():
    batcher, model, recorder = make(BatchPolicy(max_delay_ms=0, max_failures=3, cooldown_s=0.05))
    for _ in range(3):
        with pytest.raises(ApiError) as failed:
            await ask(batcher, rows(13))
        assert failed.value.code == "inference_failed"
    runs = len(model.shapes)
    with pytest.raises(ApiError) as refused:
        await ask(batcher, rows(1))
    assert refused.value.code == "circuit_open"
    assert refused.value.retry_after_ms > 0
    assert len(model.shapes) == runs  # refused without running
    async with asyncio.timeout(5):
        while batcher.circuit.is_open:
            try:
                np.testing.assert_array_equal(await ask(batcher, rows(1)), 2 * rows(1)["x"])
            except ApiError as still_open:
                assert still_open.code == "circuit_open"
                await asyncio.sleep(0.005)
    assert recorder.circuits == [True, False]


async def test_one_success_between_failures_keeps_the_circuit_closed():
    batcher, _, _ = make(BatchPolicy(max_delay_ms=0, max_failures=2))
    for _ in range(3):
        with pytest.raises(ApiError):
            await ask(batcher, rows(13))
        await ask(batcher, rows(1))
    assert not batcher.circuit.is_open
