"""Sixty-four callers in three protocols, a fifth of them wrong: every answer right, every mistake named, no 5xx.

PRESSROOM_LOAD_SECONDS sets how long; docs/reliability.md reports a minute.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

from callers import Callers, until
from live_server import LiveServer
from samples import bad_samples, good_samples

from services.core.errors import CODES

CALLERS = 64
SECONDS = float(os.environ.get("PRESSROOM_LOAD_SECONDS", "20"))
BAD_SHARE = 0.2


async def test_mixed_load_gets_right_answers_and_named_errors_only(server: LiveServer) -> None:
    good, bad = good_samples(), bad_samples()
    callers = Callers(server, good, bad, BAD_SHARE)
    async with callers.calling(CALLERS) as tally:
        await asyncio.sleep(SECONDS)
    assert tally.broken == []
    assert tally.wrong == []
    by_code = Counter({code: tally.of(code) for _, code in tally.codes})
    print(f"\n{SECONDS:.0f} s, {CALLERS} callers: {tally.answered} answers, {dict(by_code)}")
    assert not [code for code in by_code if code != "ok" and CODES[code].http >= 500]
    assert set(by_code) == {"ok"} | {sample.code for sample in bad}  # each mistake was made, and named
    assert by_code["ok"] > 0.7 * tally.answered
    assert {protocol for protocol, _ in tally.codes} == {"http", "grpc"}
    await until(lambda: server.metric("pressroom_in_flight_requests", protocol="grpc") == 0, "no call is left inside")
    assert server.metric("pressroom_queue_rows") == 0


async def test_the_server_counts_what_the_callers_saw(server: LiveServer) -> None:
    good, bad = good_samples(), bad_samples()
    before = await asyncio.to_thread(server.samples)
    async with Callers(server, good, bad, BAD_SHARE).calling(8) as tally:
        await until(lambda: tally.answered > 500, "some hundred answers")
    after = await asyncio.to_thread(server.samples)
    counted: Counter[tuple[str, str]] = Counter()
    for (name, labels), value in after.items():
        if name == "pressroom_requests_total" and value > before.get((name, labels), 0):
            of = dict(labels)
            counted[of["protocol"], of["code"]] += int(value - before.get((name, labels), 0))
    assert counted == tally.codes
