"""What a request answered without a task leaves behind: no objects, and one request counted against its key."""

from __future__ import annotations

import gc
from pathlib import Path

import grpc
import pytest
from live_server import until
from served_model import METHOD, message, numbers, served_model

from services.core.auth import hash_secret
from services.core.oip.grpc_direct import Ride


async def test_a_grpc_ride_is_freed_with_its_message_before_any_collector_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        served_model(monkeypatch) as served,
        grpc.aio.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel,
    ):
        infer = channel.unary_unary(METHOD)
        for x in (1.0, 2.0):
            await infer(message(x))
        gc.collect()
        gc.disable()
        try:
            assert [numbers(await infer(message(x))) for x in (3.0, 4.0)] == [[6.0], [8.0]]
            assert len(served.rides) == 3
            served.rides.clear()
            await until(lambda: not any(type(one) is Ride for one in gc.get_objects()))
        finally:
            gc.enable()


async def test_a_request_that_finds_the_house_full_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.toml"
    entry = f'[[keys]]\nid = "k"\nsha256 = "{hash_secret("secret")}"\nscopes = ["infer"]\nrequests_per_minute = 10\n'
    keys.write_text(entry)
    async with served_model(monkeypatch, keys_file=str(keys), max_in_flight=1) as served:
        one, two = [await served.familiar(Authorization="Bearer secret") for _ in range(2)]
        served.model.going.clear()
        one.send(one.request(2.0))
        await served.model.has_begun(3)
        refused = await two.ask(2.0)
        assert (refused.status, refused.document["error"]["code"]) == (429, "too_many_in_flight")
        served.model.going.set()
        assert (await one.answer()).headers["ratelimit-remaining"] == "7"
        assert (await one.ask(2.0)).headers["ratelimit-remaining"] == "5"
