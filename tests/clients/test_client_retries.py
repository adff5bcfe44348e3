"""When the client tries again, how long it pauses, and when it stops."""

from __future__ import annotations

import pytest
from pressroom_client import (
    APIConnectionError,
    Client,
    HistoryTooShort,
    InferenceFailed,
    PayloadTooLarge,
    QueueFull,
    Retry,
    ShuttingDown,
    Timeout,
    UsageError,
)
from pressroom_client._retry import backoff
from tiny_service import Behaviour, RefusalError

VALUES = {"a": [1.0, 2.0, 3.0, 4.0]}


def full(**headers: str) -> RefusalError:
    return RefusalError("queue_full", 429, "RESOURCE_EXHAUSTED", headers=headers)


def test_pauses_double_up_to_the_longest() -> None:
    assert [backoff(Retry(), number, 0.0) for number in range(7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert backoff(Retry(), 10_000, 0.0) == 8.0


def test_jitter_only_shortens() -> None:
    pauses = [backoff(Retry(), 1, chance / 100) for chance in range(100)]
    assert max(pauses) == 1.0
    assert min(pauses) == pytest.approx(0.75, abs=0.01)


def test_two_retries_then_the_answer(client: Client, server: Behaviour, instant) -> None:
    server.refusals += [full(), RefusalError("shutting_down", 503, "UNAVAILABLE")]
    assert client.forecast(VALUES).model == "counter"
    assert instant.pauses == [0.5, 1.0]


def test_each_retry_says_its_count_under_one_request_id(client: Client, server: Behaviour) -> None:
    server.refusals += [full(), full()]
    client.forecast(VALUES)
    assert [seen.headers.get("x-retry-count") for seen in server.seen] == [None, "1", "2"]
    assert len({seen.headers["x-request-id"] for seen in server.seen}) == 1


def test_after_the_last_retry_the_last_error_is_raised(client: Client, server: Behaviour, instant) -> None:
    server.refusals += [full(), full(), RefusalError("shutting_down", 503, "UNAVAILABLE")]
    with pytest.raises(ShuttingDown):
        client.forecast(VALUES)
    assert len(instant.pauses) == 2


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (RefusalError("history_too_short", 422, "INVALID_ARGUMENT"), HistoryTooShort),
        (RefusalError("payload_too_large", 413, "RESOURCE_EXHAUSTED"), PayloadTooLarge),
        (RefusalError("inference_failed", 500, "INTERNAL"), InferenceFailed),
    ],
)
def test_what_will_not_get_better_is_not_retried(
    refusal: RefusalError, kind: type[Exception], client: Client, server: Behaviour
) -> None:
    server.refusals.append(refusal)
    with pytest.raises(kind):
        client.forecast(VALUES)
    assert len(server.seen) == 1


@pytest.mark.parametrize("transport", ["http"])
@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_proxys_status_is_retried(status: int, client: Client, server: Behaviour) -> None:
    server.refusals.append(RefusalError.bare(status))
    assert client.forecast(VALUES).model == "counter"


def test_a_deadline_the_server_missed_is_retried(client: Client, server: Behaviour) -> None:
    server.refusals.append(RefusalError("deadline_exceeded", 504, "DEADLINE_EXCEEDED"))
    assert client.forecast(VALUES).model == "counter"


def test_a_connection_error_is_retried(free_port: int, instant) -> None:
    with Client(f"http://127.0.0.1:{free_port}", clock=instant.clock) as client, pytest.raises(APIConnectionError):
        client.forecast(VALUES)
    assert instant.pauses == [0.5, 1.0]


def test_retries_are_chosen_per_call(client: Client, server: Behaviour) -> None:
    server.refusals.append(full())
    with pytest.raises(QueueFull):
        client.forecast(VALUES, retries=0)
    server.refusals += [full()] * 4
    assert client.forecast(VALUES, retries=4).model == "counter"


def test_retry_after_in_milliseconds_is_waited_for_exactly(client: Client, server: Behaviour, instant) -> None:
    server.refusals.append(full(**{"retry-after-ms": "1500"}))
    client.forecast(VALUES)
    assert instant.pauses == [1.5]


def test_retry_after_in_the_envelope_is_waited_for(client: Client, server: Behaviour, instant) -> None:
    server.refusals.append(RefusalError("queue_full", 429, "RESOURCE_EXHAUSTED", retry_after_ms=2500))
    client.forecast(VALUES)
    assert instant.pauses == [2.5]


@pytest.mark.parametrize("transport", ["http"])
@pytest.mark.parametrize(
    ("stated", "pause"),
    [
        ("3", 3.0),
        ("0", 0.0),
        ("Tue, 14 Nov 2023 22:13:32 GMT", 12.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),
        ("soon", 0.5),
        ("nan", 0.5),
    ],
)
def test_retry_after_is_seconds_or_a_date(
    stated: str, pause: float, client: Client, server: Behaviour, instant
) -> None:
    server.refusals.append(full(**{"retry-after": stated}))
    client.forecast(VALUES)
    assert instant.pauses == [pause]


def test_a_wait_beyond_the_limit_is_left_to_the_caller(client: Client, server: Behaviour, instant) -> None:
    server.refusals.append(full(**{"retry-after-ms": "121000"}))
    with pytest.raises(QueueFull) as caught:
        client.forecast(VALUES, timeout=Timeout(total=None))
    assert caught.value.retry_after == 121.0
    assert instant.pauses == []


def test_no_pause_outlasts_the_total(client: Client, server: Behaviour, instant) -> None:
    server.refusals += [full(), full(), full()]
    with pytest.raises(QueueFull):
        client.forecast(VALUES, timeout=1.2, retries=5)
    assert instant.pauses == [0.5]


@pytest.mark.parametrize("transport", ["http"])
def test_a_later_attempt_has_what_the_earlier_ones_left(client: Client, server: Behaviour) -> None:
    server.refusals += [full(), full()]
    client.forecast(VALUES, timeout=10)
    assert [seen.headers["x-request-timeout-ms"] for seen in server.seen] == ["10000", "9500", "8500"]


@pytest.mark.parametrize("setting", [{"count": -1}, {"jitter": 1.5}, {"first_pause": float("nan")}])
def test_a_retry_that_makes_no_sense_is_refused(setting: dict) -> None:
    with pytest.raises(UsageError, match="retry setting"):
        Retry(**setting)


def test_a_count_keeps_the_clients_other_settings() -> None:
    assert Retry.of(5, Retry(first_pause=2.0)) == Retry(count=5, first_pause=2.0)
