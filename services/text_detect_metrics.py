"""Metrics of text detection, per model and version: counts only, never a text."""

from __future__ import annotations

from collections.abc import Mapping

import prometheus_client as prom

from models.dna_gpt.detector import MODES
from models.dna_gpt.verdict import VERDICTS as VERDICT_NAMES
from services.core.metrics import ModelMetrics
from services.generation.observer import Load, Unobserved
from services.text_detection.upstream import REASONS

_MODEL = ("model", "version")

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
    """The series of one loaded detector; its engine's queue and circuit are told as the model's own.

    Nothing is counted before `begin`: the warm-up is no caller's.
    """

    def __init__(self, name: str, version: str, model: ModelMetrics) -> None:
        self._labels = (name, version)
        self._model = model
        self._begun = False

    def begin(self) -> None:
        """The model is served from now on: create every series, so that rates exist before the first text."""
        self._begun = True
        for mode in MODES:
            REGENERATIONS.labels(*self._labels, mode)
            for verdict in VERDICT_NAMES:
                VERDICTS.labels(*self._labels, mode, verdict)
        for reason in REASONS:
            UPSTREAM_FAILURES.labels(*self._labels, reason)

    def answered(self, mode: str, verdict: str, regenerations: int, failures: Mapping[str, int]) -> None:
        if not self._begun:
            return
        VERDICTS.labels(*self._labels, mode, verdict).inc()
        REGENERATIONS.labels(*self._labels, mode).inc(regenerations)
        for reason, count in failures.items():
            UPSTREAM_FAILURES.labels(*self._labels, reason).inc(count)

    def load(self, load: Load) -> None:
        self._model.queue(load.waiting)

    def circuit(self, is_open: bool) -> None:
        self._model.circuit(is_open)
