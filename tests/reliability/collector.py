"""An OpenTelemetry collector of the test's own: takes OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(ThreadingHTTPServer):
    """`spans` in the order they came; `paths` they were sent to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.paths: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def of_trace(self, trace_id: str) -> dict[str, Any]:
        """Spans of a trace by name."""
        return {span.name: span for span in list(self.spans) if span.trace_id.hex() == trace_id}

    def of_request(self, request_id: str) -> dict[str, Any]:
        """Spans of the trace that a request id belongs to."""
        for span in list(self.spans):
            if attributes(span).get("pressroom.request_id") == request_id:
                return self.of_trace(span.trace_id.hex())
        return {}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.add(self.path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Silent."""


def attributes(span: Any) -> dict[str, Any]:
    """A span's attributes as Python values."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def milliseconds(span: Any) -> float:
    return float(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


@contextmanager
def running_collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()
