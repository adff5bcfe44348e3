"""200 callers stream at once and leave when they like: nobody hears another's words, and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from live_server import LiveServer, eventually, running_server
from text_callers import Heard, listen

CALLERS, PROMPTS, ROUNDS = 200, 25, 3
GROWTH_MIB = 24.0  # the allocator's own to and fro; 200 leaked sequences of this model would be over 50
MODEL = "tiny-fp32"


@pytest.fixture(scope="module")
def crowded(tiny_llm_home: Path, tmp_path_factory: pytest.TempPathFactory):
    log = tmp_path_factory.mktemp("crowded") / "server.log"
    settings = {"PRESSROOM_LLM_SLOTS": "16", "PRESSROOM_LLM_MAX_QUEUE": "400", "PRESSROOM_MODELS": MODEL}
    with running_server(tiny_llm_home, log, environment=settings) as server:
        yield server


def requests() -> list[dict[str, object]]:
    """Distinct, ragged, greedy and drawn."""
    return [
        {
            "model": MODEL,
            "prompt": f"caller {i} asks " + "again and " * (i % 7),
            "max_tokens": 10 + 5 * (i % 5),
            "temperature": (i % 3) / 2,
            "seed": i,
            "ignore_eos": True,
        }
        for i in range(PROMPTS)
    ]


async def crowd(port: int, asked: list[dict[str, object]], chance: random.Random) -> list[Heard]:
    """All callers at once; two of three leave after one to eight events."""
    leaving = [None if chance.random() < 1 / 3 else chance.randint(1, 8) for _ in range(CALLERS)]
    return await asyncio.gather(
        *(listen(port, asked[i % len(asked)], leave_after) for i, leave_after in enumerate(leaving))
    )


def test_callers_who_leave_cost_nobody_anything(crowded: LiveServer) -> None:
    asked = requests()
    alone = [asyncio.run(listen(crowded.port, request)) for request in asked]
    assert all(one.complete for one in alone)
    chance, memory = random.Random(7), []
    for _ in range(ROUNDS):
        heard = asyncio.run(crowd(crowded.port, asked, chance))
        for i, one in enumerate(heard):
            expected = alone[i % len(asked)]
            assert len(one.names) <= 1, "events of one stream belong to one answer"
            assert expected.text.startswith(one.text)
            assert expected.ids[: len(one.ids)] == one.ids
            assert not one.complete or (one.text, one.ids) == (expected.text, expected.ids)
        assert 20 < sum(one.complete for one in heard) < 140
        everything_is_free(crowded)
        memory.append(crowded.metric("pressroom_worker_resident_bytes") / 2**20)
    print(f"{ROUNDS} x {CALLERS} callers, resident MiB after each round: {[round(m, 1) for m in memory]}")
    assert memory[-1] - memory[0] < GROWTH_MIB, memory
    assert [asyncio.run(listen(crowded.port, request)).text for request in asked[:3]] == [a.text for a in alone[:3]]


def everything_is_free(server: LiveServer) -> None:
    for name in ("running_sequences", "waiting_sequences", "kv_reserved_tokens"):
        eventually(lambda name=name: server.metric(f"pressroom_llm_{name}", model=MODEL) == 0, f"{name} is zero")
    eventually(
        lambda: server.metric("pressroom_in_flight_requests", protocol="http") <= 1, "only the scrape is handled"
    )
