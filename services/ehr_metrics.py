"""Metrics of health-record models: how much of the work is padding. Labels are names and versions, nothing sent."""

from __future__ import annotations

import prometheus_client as prom

from services.core.metrics import write_with_all

_MODEL = ("model", "version")

EVENTS = prom.Counter(
    "pressroom_ehr_positions_total", "Positions of histories that went through the network, padding left out.", _MODEL
)
PADDED = prom.Counter(
    "pressroom_ehr_padded_positions_total", "The same with padding: what the network computed.", _MODEL
)


class EhrMetrics:
    """The series of one loaded model; counted in the model's thread, written with all others.

    Nothing is counted before `begin`: the warm-up is no caller's.
    """

    def __init__(self, name: str, version: str) -> None:
        self._events, self._padded = EVENTS.labels(name, version), PADDED.labels(name, version)
        self._real = self._whole = 0
        self._begun = False
        write_with_all(self)

    def begin(self) -> None:
        """The model is served from now on."""
        self._begun = True

    def batch(self, real: int, whole: int) -> None:
        """A forward pass over `whole` positions, `real` of them of patients."""
        if self._begun:
            self._real += real
            self._whole += whole

    def write(self) -> None:
        """Bring the series up to date."""
        real, self._real = self._real, 0
        whole, self._whole = self._whole, 0
        self._events.inc(real)
        self._padded.inc(whole)
