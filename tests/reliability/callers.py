"""Closed-loop callers: each sends a request, judges the answer, sends the next, until they are told to stop."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import aiohttp
import grpc
import numpy as np
import orjson
from live_server import LiveServer
from samples import Sample
from tritonclient.grpc import service_pb2_grpc

from services.core.errors import CODES


class BrokenError(Exception):
    """The connection ended without an answer."""


@dataclass
class Tally:
    """What came of all requests. `moments`: when each of the `broken` ones was sent, `perf_counter` seconds."""

    codes: Counter[tuple[str, str]] = field(default_factory=Counter)  # (protocol, code)
    wrong: list[str] = field(default_factory=list)  # answers that are not what they should be
    broken: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return self.codes.total()

    def of(self, code: str) -> int:
        return sum(count for (_, got), count in self.codes.items() if got == code)

    def judge(self, sample: Sample, code: str, forecast: np.ndarray | None) -> None:
        self.codes[sample.protocol, code] += 1
        if code != sample.code:
            self.wrong.append(f"{sample.name}: {code} instead of {sample.code}")
        elif forecast is not None and not sample.is_right(forecast):
            self.wrong.append(f"{sample.name}: another forecast")


class Callers:
    """Many callers of one server.

    stop_at  codes that end a caller instead of being judged, e.g. shutting_down
    """

    def __init__(
        self, server: LiveServer, good: Sequence[Sample], bad: Sequence[Sample] = (), bad_share: float = 0.0
    ) -> None:
        self.tally = Tally()
        self.stop_at: frozenset[str] = frozenset()
        self._server = server
        self._good, self._bad, self._bad_share = good, bad, bad_share
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def calling(self, count: int) -> AsyncIterator[Tally]:
        """Run so many callers; leaving the block stops them after their running request."""
        tasks = [asyncio.create_task(self._call(i)) for i in range(count)]
        try:
            yield self.tally
        finally:
            self._stopping.set()
            await asyncio.gather(*tasks)

    async def _call(self, number: int) -> None:
        """One caller: one connection of each kind, so that a lost worker costs it one request."""
        chance = random.Random(number)
        own = aiohttp.TCPConnector(limit=1)
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with (
            aiohttp.ClientSession(self._server.url, connector=own) as session,
            grpc.aio.insecure_channel(self._server.grpc_address, options) as channel,
        ):
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            while not self._stopping.is_set():
                sample = chance.choice(self._bad if chance.random() < self._bad_share else self._good)
                if not await self._ask(sample, session, stub):
                    return

    async def _ask(self, sample: Sample, session: aiohttp.ClientSession, stub: Any) -> bool:
        """Send one request and judge its answer; False if this caller is to stop."""
        sent, patient = perf_counter(), not self.stop_at
        try:
            code, forecast = await (
                _http(session, sample) if sample.protocol == "http" else _rpc(stub, sample, patient)
            )
        except BrokenError as fault:
            self.tally.broken.append(f"{sample.name}: {fault}")
            self.tally.moments.append(sent)
            return patient
        if code in self.stop_at:
            return False
        self.tally.judge(sample, code, forecast)
        return True


async def _http(session: aiohttp.ClientSession, sample: Sample) -> tuple[str, np.ndarray | None]:
    try:
        async with session.post(sample.path, data=sample.body, headers=sample.headers) as response:
            body = await response.read()
            if response.status == 200:
                assert sample.read is not None, sample.name
                return "ok", sample.read(body, response.headers)
            code = orjson.loads(body)["error"]["code"]
            return (code, None) if CODES[code].http == response.status else (f"{code} as {response.status}", None)
    except (aiohttp.ClientError, ConnectionError) as fault:
        raise BrokenError(repr(fault)) from None


async def _rpc(stub: Any, sample: Sample, patient: bool) -> tuple[str, np.ndarray | None]:
    """patient: a call waits while its channel connects, instead of failing at once again and again."""
    try:
        answer = await stub.ModelInfer(sample.message, timeout=60, wait_for_ready=patient)
        assert sample.read is not None, sample.name
        return "ok", sample.read(answer, {})
    except grpc.aio.AioRpcError as fault:
        trailing = {item[0]: item[1] for item in fault.trailing_metadata() or ()}
        if "pressroom-error-bin" not in trailing:
            raise BrokenError(f"{fault.code().name}: {fault.details()}") from None
        code = orjson.loads(trailing["pressroom-error-bin"])["error"]["code"]
        return (code, None) if CODES[code].grpc == fault.code().name else (f"{code} as {fault.code().name}", None)


async def until(condition: Any, what: str, seconds: float = 60.0) -> Any:
    """`eventually` for coroutines: poll a blocking condition without stopping the callers."""
    ends = perf_counter() + seconds
    while True:
        found = await asyncio.to_thread(condition)
        if found:
            return found
        assert perf_counter() < ends, f"{seconds:.0f} s passed and still not: {what}"
        await asyncio.sleep(0.02)
