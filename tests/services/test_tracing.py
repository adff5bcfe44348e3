"""Spans of finished calls: one request with queue and inference inside, times and parents as the call says."""

from __future__ import annotations

import time

import pytest
from doubles import finished_call
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from services.core.settings import Settings
from services.core.tracing import Tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-2] + "00"


class Recorded:
    """A Tracing whose spans stay in this process."""

    def __init__(self, fraction: float = 1.0) -> None:
        self.tracing = Tracing(Settings(otlp_endpoint="http://127.0.0.1:9", trace_fraction=fraction))
        self._kept = InMemorySpanExporter()
        self.tracing._provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._kept.get_finished_spans()}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr("services.core.tracing.BatchSpanProcessor", lambda exporter: SimpleSpanProcessor(_Nowhere()))
    return Recorded()


class _Nowhere(InMemorySpanExporter):
    """Instead of the network."""


def test_an_answered_call_is_a_request_with_queue_and_inference_inside(recorded: Recorded) -> None:
    recorded.tracing.record(finished_call(), "ok")
    spans = recorded.spans()
    request = spans["/v1/forecast"]
    assert request.kind is SpanKind.SERVER
    assert request.parent is None
    assert {span.parent.span_id for name, span in spans.items() if name != "/v1/forecast"} == {request.context.span_id}
    lengths = {name: (span.end_time - span.start_time) / 1e6 for name, span in spans.items()}
    assert lengths == pytest.approx({"/v1/forecast": 15, "queue": 2, "inference": 4}, abs=1e-3)
    assert (spans["queue"].start_time - request.start_time) / 1e6 == pytest.approx(1, abs=1e-3)
    assert spans["queue"].end_time == spans["inference"].start_time


def test_spans_lie_at_the_wall_clock_s_time(recorded: Recorded) -> None:
    recorded.tracing.record(finished_call(), "ok")
    assert abs(recorded.spans()["/v1/forecast"].start_time - time.time_ns()) < 60e9


def test_the_caller_s_trace_is_continued(recorded: Recorded) -> None:
    recorded.tracing.record(finished_call(traceparent=PARENT), "ok")
    request = recorded.spans()["/v1/forecast"]
    assert f"{request.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{request.parent.span_id:016x}" == PARENT.split("-")[2]


@pytest.mark.parametrize("sent", ["", "garbage", "00-0-0-01", "ff-" + PARENT[3:]])
def test_an_unreadable_traceparent_starts_a_trace_of_its_own(recorded: Recorded, sent: str) -> None:
    recorded.tracing.record(finished_call(traceparent=sent), "ok")
    assert recorded.spans()["/v1/forecast"].parent is None


def test_a_refused_call_is_an_error_with_its_code_and_no_children(recorded: Recorded) -> None:
    recorded.tracing.record(finished_call(batch_rows=0), "queue_full")
    (span,) = recorded.spans().values()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "queue_full")


@pytest.mark.parametrize("code", ["ok", "cancelled"])
def test_an_answer_and_a_caller_who_left_are_no_errors(recorded: Recorded, code: str) -> None:
    recorded.tracing.record(finished_call(), code)
    assert recorded.spans()["/v1/forecast"].status.status_code is StatusCode.UNSET


def test_attributes_identify_request_and_artifact_and_hold_no_data(recorded: Recorded) -> None:
    recorded.tracing.record(finished_call(), "ok")
    assert recorded.spans()["/v1/forecast"].attributes == {
        "pressroom.request_id": "request-1",
        "pressroom.protocol": "http",
        "pressroom.code": "ok",
        "pressroom.batch_rows": 5,
        "pressroom.model": "m:1",
        "pressroom.digest": "sha256:" + "0" * 64,
    }


@pytest.mark.usefixtures("recorded")
def test_the_caller_s_decision_wins_over_the_sampled_share() -> None:
    never, always = Recorded(0.0), Recorded(1.0)
    never.tracing.record(finished_call(), "ok")
    assert never.spans() == {}
    never.tracing.record(finished_call(traceparent=PARENT), "ok")
    assert "/v1/forecast" in never.spans()
    always.tracing.record(finished_call(traceparent=UNSAMPLED), "ok")
    assert always.spans() == {}
