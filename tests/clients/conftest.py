"""Real servers on free loopback ports, one of each transport a session; clients and clocks for them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from pressroom_client import Client, Clock
from tiny_service import Behaviour, grpc_server, http_server

TRANSPORTS = ("http", "grpc")


class Instant:
    """A clock that passes only while the client sleeps, and a chance that never shortens a pause."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds

    async def async_sleep(self, seconds: float) -> None:
        self.sleep(seconds)

    @property
    def clock(self) -> Clock:
        return Clock(
            now=lambda: self.seconds,
            wall=lambda: 1_700_000_000.0,
            random=lambda: 0.0,
            sleep=self.sleep,
            async_sleep=self.async_sleep,
        )


@pytest.fixture(scope="session")
def behaviours() -> dict[str, Behaviour]:
    return {name: Behaviour() for name in TRANSPORTS}


@pytest.fixture(scope="session")
def addresses(behaviours: dict[str, Behaviour]) -> Iterator[dict[str, str]]:
    with http_server(behaviours["http"]) as http, grpc_server(behaviours["grpc"]) as grpc:
        yield {"http": http, "grpc": grpc}


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """Each transport in turn; a test that wants one only overrides it by parametrizing."""
    return request.param


@pytest.fixture
def url(addresses: dict[str, str], transport: str) -> str:
    return addresses[transport]


@pytest.fixture
def server(behaviours: dict[str, Behaviour], transport: str) -> Iterator[Behaviour]:
    behaviours[transport].reset()
    yield behaviours[transport]
    behaviours[transport].reset()


@pytest.fixture
def instant() -> Instant:
    return Instant()


@pytest.fixture
def client(url: str, server: Behaviour, instant: Instant) -> Iterator[Client]:
    with Client(url, clock=instant.clock) as client:
        yield client


@pytest.fixture
def frame() -> pd.DataFrame:
    """Six hours of two columns in a zone."""
    index = pd.date_range("2024-03-10", periods=6, freq="h", tz="Asia/Shanghai", name="when")
    return pd.DataFrame({"b": np.arange(6.0), "a": np.arange(6.0) * 10}, index=index)


@pytest.fixture
def free_port() -> int:
    """A loopback port nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
