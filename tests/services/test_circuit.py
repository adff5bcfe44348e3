"""The circuit breaker's three states, on a clock of the test's own."""

from __future__ import annotations

import pytest

from services.core import circuit as circuit_module
from services.core.circuit import Circuit
from services.core.errors import ApiError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [50.0]
    monkeypatch.setattr(circuit_module, "monotonic", lambda: now[0])
    return now


def opened(failures: int = 3) -> Circuit:
    circuit = Circuit(3, 5.0)
    for _ in range(failures):
        circuit.failed()
    return circuit


def refusal(circuit: Circuit) -> ApiError:
    with pytest.raises(ApiError) as refused:
        circuit.check()
    return refused.value


def test_fewer_failures_than_the_threshold_change_nothing(clock: list[float]) -> None:
    circuit = opened(2)
    circuit.check()
    assert not circuit.is_open


def test_failures_in_a_row_open_it_with_reason_and_time_to_return(clock: list[float]) -> None:
    circuit = opened()
    clock[0] += 1.5
    error = refusal(circuit)
    assert (error.code, error.retry_after_ms) == ("circuit_open", 3500)
    assert "3 times in a row" in error.message


def test_a_success_between_failures_starts_the_count_again(clock: list[float]) -> None:
    circuit = opened(2)
    circuit.succeeded()
    circuit.failed()
    circuit.failed()
    assert not circuit.is_open


def test_after_the_pause_one_trial_is_let_through_and_no_second(clock: list[float]) -> None:
    circuit = opened()
    clock[0] += 5
    circuit.check()
    assert refusal(circuit).code == "circuit_open"


def test_a_trial_that_succeeds_closes_it(clock: list[float]) -> None:
    circuit = opened()
    clock[0] += 5
    circuit.check()
    circuit.succeeded()
    assert not circuit.is_open
    circuit.check()
    circuit.check()


def test_a_trial_that_fails_opens_it_for_another_pause(clock: list[float]) -> None:
    circuit = opened()
    clock[0] += 5
    circuit.check()
    clock[0] += 1
    circuit.failed()
    assert refusal(circuit).retry_after_ms == 5000


def test_a_trial_that_was_never_run_is_replaced_after_a_pause(clock: list[float]) -> None:
    circuit = opened()
    clock[0] += 5
    circuit.check()
    clock[0] += 5
    circuit.check()
