"""The access log: which requests get a line at which level, and what a line holds."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from doubles import finished_call

from services.core.journal import Journal, access
from services.core.settings import Settings


@pytest.fixture
def written() -> Iterator[list[str]]:
    """Messages that reach the access logger."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    before = access.handlers[:], access.propagate, access.level
    access.handlers[:] = [handler]
    access.setLevel(logging.INFO)
    yield messages
    access.handlers[:], access.propagate = before[:2]
    access.setLevel(before[2])


@pytest.mark.parametrize(
    ("level", "codes"),
    [("off", []), ("errors", ["history_too_short", "cancelled"]), ("all", ["ok", "history_too_short", "cancelled"])],
)
def test_each_level_writes_its_requests(written: list[str], level, codes: list[str]) -> None:
    journal = Journal(Settings(access_log=level))
    for code in ("ok", "history_too_short", "cancelled"):
        journal.finished(finished_call(), code, None)
    assert [json.loads(line)["code"] for line in written] == codes


def test_a_line_holds_identity_outcome_and_times(written: list[str]) -> None:
    Journal(Settings(access_log="all")).finished(finished_call(), "ok", "team-a")
    entry = json.loads(written[0])
    time = entry.pop("time")
    assert time.endswith("+00:00")
    assert entry == {
        "request_id": "request-1",
        "protocol": "http",
        "route": "/v1/forecast",
        "model": "m:1",
        "code": "ok",
        "key": "team-a",
        "batch_rows": 5,
        "preprocess_ms": pytest.approx(1, abs=1e-3),
        "queue_ms": pytest.approx(2, abs=1e-3),
        "inference_ms": pytest.approx(4, abs=1e-3),
        "postprocess_ms": pytest.approx(8, abs=1e-3),
        "total_ms": pytest.approx(15, abs=1e-3),
    }


def test_a_request_that_reached_no_model_says_so(written: list[str]) -> None:
    Journal(Settings(access_log="errors")).finished(finished_call(model=None), "model_not_found", None)
    assert json.loads(written[0])["model"] is None


def test_without_an_endpoint_tracing_is_not_even_imported() -> None:
    program = (
        "import sys; import services.core.journal as j; from services.core.settings import Settings;"
        "journal = j.Journal(Settings()); assert journal.tracing is None;"
        "sys.exit('services.core.tracing' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
