"""OpenTelemetry traces: one span a request, with its queue and inference inside, sent by OTLP over HTTP.

Off unless an endpoint is named, and then nothing is created while a request runs: spans are made from the call's own
clock when it is finished. `traceparent` (HTTP header, gRPC metadata) makes them part of the caller's trace.
"""

from __future__ import annotations

import time
from time import perf_counter_ns

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.core.call import Call
from services.core.settings import Settings
from services.core.version import VERSION

_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """Turns finished calls into spans."""

    def __init__(self, settings: Settings) -> None:
        resource = Resource.create({"service.name": "pressroom", "service.version": VERSION})
        self._provider = TracerProvider(resource=resource, sampler=ParentBasedTraceIdRatio(settings.trace_fraction))
        exporter = OTLPSpanExporter(endpoint=f"{settings.otlp_endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("pressroom", VERSION)
        self._epoch_ns = time.time_ns() - perf_counter_ns()

    def record(self, call: Call, code: str) -> None:
        """The spans of one finished call."""
        parent = _PROPAGATOR.extract({"traceparent": call.traceparent}) if call.traceparent else None
        request = self._tracer.start_span(
            call.route, parent, trace.SpanKind.SERVER, _attributes(call, code), start_time=self._at(call.started)
        )
        if code not in ("ok", "cancelled"):
            request.set_status(trace.StatusCode.ERROR, code)
        if call.batch_rows:
            inside = trace.set_span_in_context(request)
            for name, begin, end in (("queue", call.submitted, call.began), ("inference", call.began, call.ended)):
                self._tracer.start_span(name, inside, start_time=self._at(begin)).end(self._at(end))
        request.end(self._at(call.finished))

    def close(self) -> None:
        """Send what is still held."""
        self._provider.shutdown()

    def _at(self, seconds: float) -> int:
        return self._epoch_ns + int(seconds * 1e9)


def _attributes(call: Call, code: str) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "pressroom.request_id": call.request_id,
        "pressroom.protocol": call.protocol,
        "pressroom.code": code,
        "pressroom.batch_rows": call.batch_rows,
    }
    if call.model is not None:
        attributes |= {"pressroom.model": call.model.artifact.tag, "pressroom.digest": call.model.digest}
    return attributes
