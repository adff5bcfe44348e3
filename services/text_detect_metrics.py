"""Metrics of text detection, per model and version: counts only, never a text."""

from __future__ import annotations

import prometheus_client as prom

from models.dna_gpt.detector import MODES
from services.core.metrics import ModelMetrics
from services.generation.observer import Load, Unobserved
from services.text_detection.upstream import REASONS

_MODEL = ("model", "version")
VERDICT_WORDS = ("machine", "human", "inconclusive", "too_short", "unsupported_script")

VERDICTS = prom.Counter(
    "pressroom_text_detect_verdicts_total",
    "Texts that were answered, by mode and verdict.",
    (*_MODEL, "mode", "verdict"),
)
REGENERATIONS = prom.Counter(
    "pressroom_text_detect_regenerations_total", "Regenerations that came, by mode.", (*_MODEL, "mode")
)
UPSTREAM_FAILURES = prom.Counter(
    "pressroom_text_detect_upstream_failures_total",
    "Regenerations the operator's endpoint did not deliver, after retries, by reason.",
    (*_MODEL, "reason"),
)


class DetectMetrics(Unobserved):
    """The series of one loaded detector; its engine's queue and circuit are told as the model's own."""

    def __init__(self, name: str, version: str, model: ModelMetrics) -> None:
        self._labels = (name, version)
        self._model = model

    def announce(self) -> None:
        """Create every series, so that rates exist before the first text."""
        for mode in MODES:
            REGENERATIONS.labels(*self._labels, mode)
            for verdict in VERDICT_WORDS:
                VERDICTS.labels(*self._labels, mode, verdict)
        for reason in REASONS:
            UPSTREAM_FAILURES.labels(*self._labels, reason)

    def answered(self, mode: str, verdict: str, regenerations: int) -> None:
        """One text."""
        VERDICTS.labels(*self._labels, mode, verdict).inc()
        REGENERATIONS.labels(*self._labels, mode).inc(regenerations)

    def failed(self, reason: str, count: int) -> None:
        """Regenerations that did not come."""
        UPSTREAM_FAILURES.labels(*self._labels, reason).inc(count)

    def load(self, load: Load) -> None:
        self._model.queue(load.waiting)

    def circuit(self, is_open: bool) -> None:
        self._model.circuit(is_open)
