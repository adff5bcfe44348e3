"""Shadow traffic: answers are compared in the background, the caller never waits and never sees a failure."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from doubles import FakeModel, finished_call
from prometheus_client import REGISTRY

from services.core.shadow import MAX_RUNNING, Shadow


def model(version: str, name: str) -> FakeModel:
    return FakeModel(name=name, version=version, artifact=SimpleNamespace(tag=f"{name}:{version}"))


class Followed:
    """A shadow whose follower is version 2 of a model named after the test."""

    def __init__(self, name: str, follows: bool = True) -> None:
        self.name = name
        other = model("2", name) if follows else None
        self.shadow = Shadow(SimpleNamespace(follower=lambda call: other))  # type: ignore[arg-type]
        self.asked = 0

    def follow(self, answer: list[float], again) -> None:
        async def repeat(other, call):
            self.asked += 1
            assert call.interactive is False
            return await again()

        self.shadow.follow(finished_call(model=model("1", self.name)), lambda: np.array(answer), repeat)

    async def settled(self) -> None:
        while self.shadow._running:
            await asyncio.gather(*self.shadow._running)

    def count(self, outcome: str) -> float:
        labels = {"model": self.name, "version": "1", "shadow_version": "2", "outcome": outcome}
        return REGISTRY.get_sample_value("pressroom_shadow_requests_total", labels) or 0.0

    def difference(self) -> float | None:
        labels = {"model": self.name, "version": "1", "shadow_version": "2"}
        return REGISTRY.get_sample_value("pressroom_shadow_difference_sum", labels)


async def give(*numbers: float) -> np.ndarray:
    return np.array(numbers)


async def test_the_largest_difference_is_observed(request: pytest.FixtureRequest) -> None:
    followed = Followed(request.node.name)
    followed.follow([1.0, 2.0, 3.0], lambda: give(1.0, 2.5, 2.75))
    await followed.settled()
    assert (followed.count("compared"), followed.difference()) == (1, 0.5)


async def test_a_failing_shadow_is_counted_and_nothing_else(request: pytest.FixtureRequest) -> None:
    async def fail() -> np.ndarray:
        raise RuntimeError

    followed = Followed(request.node.name)
    followed.follow([1.0], fail)
    await followed.settled()
    assert (followed.count("failed"), followed.difference()) == (1, None)


async def test_answers_of_other_shapes_are_incomparable(request: pytest.FixtureRequest) -> None:
    followed = Followed(request.node.name)
    followed.follow([1.0], lambda: give(1.0, 2.0))
    await followed.settled()
    assert (followed.count("incomparable"), followed.difference()) == (1, None)


async def test_the_caller_does_not_wait(request: pytest.FixtureRequest) -> None:
    release = asyncio.Event()

    async def slow() -> np.ndarray:
        await release.wait()
        return np.array([1.0])

    followed = Followed(request.node.name)
    followed.follow([1.0], slow)
    assert followed.count("compared") == 0
    release.set()
    await followed.settled()
    assert followed.count("compared") == 1


async def test_no_more_than_a_fixed_number_run_at_once(request: pytest.FixtureRequest) -> None:
    release = asyncio.Event()

    async def slow() -> np.ndarray:
        await release.wait()
        return np.array([1.0])

    followed = Followed(request.node.name)
    for _ in range(MAX_RUNNING + 5):
        followed.follow([1.0], slow)
    release.set()
    await followed.settled()
    assert followed.asked == MAX_RUNNING


async def test_a_request_that_is_not_drawn_costs_nothing(request: pytest.FixtureRequest) -> None:
    followed = Followed(request.node.name, follows=False)
    followed.follow([1.0], lambda: give(1.0))
    assert not followed.shadow._running
