"""Prometheus metrics of the serving core, safe across worker processes.

Labels are bounded: model and version are what is loaded, route is a template, code is from the closed list.
Stage intervals are those of `services.core.call`; they are the numbers the caller gets too.
Writing a sample costs a lock and a write to shared memory, so finished calls are kept for a moment and written
together (`write_all`): by the worker that answers a scrape at that moment, by every worker twice a second.
Every series a model can have exists from the moment it is loaded, so rates work before the first failure.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

import prometheus_client as prom
from prometheus_client import multiprocess

from services.core.call import STAGES, Call

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PROTOCOLS = ("http", "grpc")

REQUESTS = prom.Counter(
    "pressroom_requests_total",
    "Finished requests by outcome; code is `ok` or an error code. Counted when the answer is ready to send.",
    ("model", "version", "route", "protocol", "code"),
)
STAGE = prom.Histogram(
    "pressroom_stage_seconds",
    "Time of answered requests by stage: preprocess (body read -> queued), queue (queued -> run begins), "
    "inference (run begins -> ends), postprocess (run ends -> answer ready to encode). They add up to the request.",
    ("model", "version", "stage"),
    buckets=_SECONDS,
)
BATCH_ROWS = prom.Histogram("pressroom_batch_rows", "Rows of each forward pass.", ("model", "version"), buckets=_ROWS)
QUEUE_ROWS = prom.Gauge(
    "pressroom_queue_rows", "Rows waiting for a forward pass.", ("model", "version"), multiprocess_mode="livesum"
)
IN_FLIGHT = prom.Gauge(
    "pressroom_in_flight_requests", "Requests being handled.", ("protocol",), multiprocess_mode="livesum"
)
MODEL_READY = prom.Gauge(
    "pressroom_model_ready",
    "Workers in which the model is loaded, verified and warm.",
    ("model", "version", "family", "architecture", "digest"),
    multiprocess_mode="livesum",
)

MODEL_LOADED = prom.Gauge(
    "pressroom_model_loaded_timestamp_seconds",
    "When the version was loaded, epoch seconds; 0 after it was unloaded.",
    ("model", "version"),
    multiprocess_mode="livemax",
)
MODELS_REFUSED = prom.Gauge(
    "pressroom_models_refused",
    "Artifacts that were asked for and are not served, in the worker that refuses most: damaged, edited, of another "
    "digest than pinned, not reproducing their example, or missing.",
    multiprocess_mode="livemax",
)
CIRCUIT_OPEN = prom.Gauge(
    "pressroom_circuit_open",
    "Workers in which the model's circuit is open.",
    ("model", "version"),
    multiprocess_mode="livesum",
)
PADDING = prom.Counter(
    "pressroom_padding_elements_total",
    "Elements of input tensors that only pad a batch to a common shape; models that join equal shapes pad none.",
    ("model", "version"),
)
SHADOW_REQUESTS = prom.Counter(
    "pressroom_shadow_requests_total",
    "Answered requests that the shadow version was given too; outcome is compared, incomparable or failed.",
    ("model", "version", "shadow_version", "outcome"),
)
SHADOW_DIFFERENCE = prom.Histogram(
    "pressroom_shadow_difference",
    "Largest absolute difference between an answer and the shadow version's, in the answer's units.",
    ("model", "version", "shadow_version"),
    buckets=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100),
)
MEMORY = prom.Gauge(
    "pressroom_worker_resident_bytes", "Resident memory of each worker process.", multiprocess_mode="liveall"
)

CONTENT_TYPE = prom.CONTENT_TYPE_LATEST


class Buffered(Protocol):
    """Holds samples that `write` brings to their series; register it with `write_with_all`."""

    def write(self) -> None: ...


_UNWRITTEN: WeakSet[Buffered] = WeakSet()


def write_with_all(buffered: Buffered) -> None:
    """Let `write_all` bring these series up to date too, as long as someone holds them."""
    _UNWRITTEN.add(buffered)


def write_all() -> None:
    """Bring every series of this worker up to date."""
    for buffered in list(_UNWRITTEN):
        buffered.write()


class InFlight:
    """Requests of one protocol that are being handled; change `count`."""

    def __init__(self, protocol: str) -> None:
        self.count = 0
        self._series = IN_FLIGHT.labels(protocol)
        write_with_all(self)

    def write(self) -> None:
        self._series.set(self.count)


class ModelMetrics:
    """The series of one loaded model; labels are resolved once, not per request."""

    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version
        self._stages = [STAGE.labels(name, version, stage) for stage in STAGES]
        self._batch_rows = BATCH_ROWS.labels(name, version)
        self._queue_rows = QUEUE_ROWS.labels(name, version)
        self._circuit = CIRCUIT_OPEN.labels(name, version)
        self._padding = PADDING.labels(name, version)
        self._requests: dict[tuple[str, str, str], prom.Counter] = {}
        self._queued = 0
        self._retired = False
        self._answered: list[tuple[tuple[str, str], tuple[float, ...]]] = []  # route and protocol, stage seconds
        write_with_all(self)

    def expect(self, route: str, protocol: str) -> None:
        """Create the series of a route before its first request."""
        for code in ("ok", "internal"):
            self._counter(route, protocol, code)

    def queue(self, rows: int) -> None:
        self._queued = rows

    def retire(self) -> None:
        """The model is no longer served: its gauge is another's from now on, if a version took its place."""
        self._queue_rows.set(0)
        self._retired = True

    def batch(self, rows: int) -> None:
        self._batch_rows.observe(rows)

    def circuit(self, is_open: bool) -> None:
        self._circuit.set(is_open)

    def padded(self, elements: int) -> None:
        self._padding.inc(elements)

    def answered(self, call: Call) -> None:
        """A finished call: one request and its four stages."""
        self._answered.append(((call.route, call.protocol), call.stage_seconds()))

    def write(self) -> None:
        """Bring the series up to date."""
        answered, self._answered = self._answered, []
        if not self._retired:
            self._queue_rows.set(self._queued)
        for (route, protocol), count in Tally(key for key, _ in answered).items():
            self._counter(route, protocol, "ok").inc(count)
        for series, seconds in zip(self._stages, zip(*(stages for _, stages in answered), strict=True), strict=False):
            observe_all(series, seconds)

    def refused(self, call: Call, code: str) -> None:
        self._counter(call.route, call.protocol, code).inc()

    def _counter(self, route: str, protocol: str, code: str) -> prom.Counter:
        key = (route, protocol, code)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = REQUESTS.labels(self._name, self._version, *key)
        return found


def observe_all(series: prom.Histogram, seconds: Sequence[float]) -> None:
    """Observe many values with one write a bucket; the library itself offers one write a value."""
    series._sum.inc(sum(seconds))
    for bucket, count in Tally(bisect_left(series._upper_bounds, s) for s in seconds).items():
        series._buckets[bucket].inc(count)


def count_unrouted(route: str, protocol: str, code: str) -> None:
    """A request that was refused before it reached a model."""
    REQUESTS.labels("", "", route, protocol, code).inc()


def exposition() -> bytes:
    """The text a scraper reads: all live workers of this server together, gauges of dead ones removed."""
    directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if directory is None:
        return prom.generate_latest()
    _reap(Path(directory))
    registry = prom.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return prom.generate_latest(registry)


def _reap(directory: Path) -> None:
    for file in directory.glob("gauge_live*.db"):
        found = re.search(r"_(\d+)\.db$", file.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            multiprocess.mark_process_dead(int(found[1]))  # type: ignore[no-untyped-call]
