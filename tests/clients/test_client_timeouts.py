"""The four timeouts of an attempt and the total of a call, each against a socket that really stalls."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pressroom_client import APITimeoutError, AsyncClient, Client, HttpTransport, Timeout, UsageError
from tiny_service import Behaviour

VALUES = {"a": [1.0, 2.0, 3.0, 4.0]}
LONG = {"a": [0.123456789] * 500_000}  # 6 MB: larger than what the sockets hold


@pytest.fixture
def deaf() -> Iterator[str]:
    """A listener that accepts nothing: connections open in its backlog, bytes pile up unread."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def full() -> Iterator[str]:
    """A listener with no place left in its backlog: a further connection is never opened."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def timed_out(client: Client, values: dict = VALUES) -> APITimeoutError:
    with client, pytest.raises(APITimeoutError) as caught:
        client.forecast(values, retries=0)
    return caught.value


def test_connect(full: str) -> None:
    error = timed_out(Client(f"http://{full}", timeout=Timeout(connect=0.2)))
    assert (error.phase, error.message) == ("connect", "the connect timeout of 0.2 s passed")
    assert error.request == f"POST http://{full}/v1/forecast"


def test_read(deaf: str) -> None:
    assert timed_out(Client(f"http://{deaf}", timeout=Timeout(read=0.2))).phase == "read"


def test_write(deaf: str) -> None:
    assert timed_out(Client(f"http://{deaf}", timeout=Timeout(write=0.2)), LONG).phase == "write"


@pytest.mark.parametrize("transport", ["http"])
def test_pool(url: str, server: Behaviour) -> None:
    server.stall = True
    with Client(url, timeout=Timeout(pool=0.2), transport=HttpTransport(max_connections=1)) as client:
        first = threading.Thread(target=client.server)
        first.start()
        assert server.arrived.wait(10)
        with pytest.raises(APITimeoutError) as caught:
            client.server(retries=0)
        server.release.set()
        first.join()
    assert caught.value.phase == "pool"


def test_total_cuts_every_phase(deaf: str) -> None:
    error = timed_out(Client(f"http://{deaf}", timeout=Timeout(total=0.2)))
    assert (error.phase, error.message) == ("read", "the read timeout of 0.2 s passed")


@pytest.mark.parametrize("transport", ["http"])
def test_total_ends_an_answer_that_never_does(url: str, server: Behaviour) -> None:
    server.trickle = True
    error = timed_out(Client(url, timeout=Timeout(total=0.3)))
    assert (error.phase, error.message) == ("total", "the call took longer than its total timeout")


def test_connect_over_grpc(full: str, deaf: str) -> None:
    for address in (full, deaf):  # neither TCP's nor HTTP/2's handshake ends
        assert timed_out(Client(f"grpc://{address}", timeout=Timeout(connect=0.2))).phase == "connect"


@pytest.mark.parametrize("transport", ["grpc"])
def test_read_over_grpc(url: str, server: Behaviour) -> None:
    server.stall = True
    error = timed_out(Client(url, timeout=0.3))
    assert (error.phase, error.grpc_status) == ("read", "DEADLINE_EXCEEDED")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
async def test_the_async_client_times_out_alike(scheme: str, deaf: str) -> None:
    async with AsyncClient(f"{scheme}://{deaf}", timeout=0.2, retries=0) as client:
        with pytest.raises(APITimeoutError):
            await client.forecast(VALUES)


def test_timeouts_are_strict_unless_said_otherwise() -> None:
    assert Timeout() == Timeout(total=60.0, connect=5.0, read=30.0, write=10.0, pool=5.0)
    assert Timeout.unlimited() == Timeout(total=None, connect=None, read=None, write=None, pool=None)


def test_a_number_is_the_whole_call() -> None:
    assert Timeout.of(120, Timeout()) == Timeout(total=120, connect=5.0, read=120, write=120, pool=120)
    assert Timeout.of(2, Timeout()) == Timeout(total=2, connect=2, read=2, write=2, pool=2)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_a_timeout_that_is_no_duration_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="expected seconds above 0") as caught:
        Timeout(read=seconds)
    assert caught.value.field == "timeout.read"
