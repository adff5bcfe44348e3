"""The async client: the same methods, arguments and answers, many calls at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator

import numpy as np
import pandas as pd
import pytest
from pressroom_client import AsyncClient, Client, QueueFull
from tiny_service import Behaviour, RefusalError

VALUES = {"a": [1.0, 2.0, 3.0, 4.0]}


@pytest.fixture
async def aclient(url: str, server: Behaviour, instant) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url, clock=instant.clock) as client:
        yield client


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_both_clients_have_the_same_methods() -> None:
    blocking = {
        name: str(signature).replace("TextStream", "AsyncTextStream") for name, signature in public(Client).items()
    }
    assert {name: str(signature) for name, signature in public(AsyncClient).items()} == blocking
    assert all(
        inspect.iscoroutinefunction(getattr(AsyncClient, name)) for name in public(AsyncClient).keys() - {"__init__"}
    )


async def test_every_method_answers_as_the_blocking_client_does(
    aclient: AsyncClient, client: Client, frame: pd.DataFrame
) -> None:
    pd.testing.assert_frame_equal((await aclient.forecast(frame)).frame, client.forecast(frame).frame)
    inputs = {"a": np.arange(3, dtype=np.int16)}
    infer = await aclient.infer("counter", inputs)
    np.testing.assert_array_equal(infer.outputs["a"], client.infer("counter", inputs).outputs["a"], strict=True)
    assert await aclient.models() == client.models()
    assert await aclient.model("counter") == client.model("counter")
    assert await aclient.metadata("counter") == client.metadata("counter")
    assert await aclient.server() == client.server()
    assert await aclient.live()
    assert await aclient.ready()
    assert await aclient.model_ready("counter")


async def test_many_calls_run_at_once(aclient: AsyncClient) -> None:
    histories = [{"a": [0.0, 0.0, 0.0, float(last)]} for last in range(20)]
    results = await asyncio.gather(*(aclient.forecast(history) for history in histories))
    assert [result.single.values["a"][0] for result in results] == [last + 1 for last in range(20)]


async def test_it_retries_with_the_same_pauses(aclient: AsyncClient, server: Behaviour, instant) -> None:
    server.refusals += [RefusalError("queue_full", 429, "RESOURCE_EXHAUSTED")] * 3
    with pytest.raises(QueueFull):
        await aclient.forecast(VALUES)
    assert instant.pauses == [0.5, 1.0]
    assert [seen.headers.get("x-retry-count") for seen in server.seen] == [None, "1", "2"]


async def test_a_cancelled_call_stays_cancelled(url: str, server: Behaviour) -> None:
    server.stall = True
    async with AsyncClient(url) as client:
        call = asyncio.create_task(client.forecast(VALUES))
        assert await asyncio.to_thread(server.arrived.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


def test_it_may_be_made_before_the_loop_runs(url: str, server: Behaviour) -> None:
    client = AsyncClient(url)

    async def use() -> bool:
        async with client:
            return await client.live()

    assert asyncio.run(use())
