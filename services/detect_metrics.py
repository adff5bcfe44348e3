"""Metrics of image models, per model and version."""

from __future__ import annotations

import prometheus_client as prom

_MODEL = ("model", "version")
HIT, MISS = "hit", "miss"

LABELS = prom.Counter(
    "pressroom_detect_labels_total",
    "Labels whose embeddings were needed; result is `hit` (kept from before) or `miss` (the text tower ran).",
    (*_MODEL, "result"),
)
LABELS_KEPT = prom.Gauge("pressroom_detect_labels_kept", "Label embeddings kept.", _MODEL, multiprocess_mode="livesum")
OPENING = prom.Histogram(
    "pressroom_detect_open_seconds",
    "From an image's bytes to the network's input: decoding, turning, resizing, and reading boxes and masks.",
    _MODEL,
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
REGIONS = prom.Counter("pressroom_detect_regions_total", "Boxes, masks and windows that were scored.", _MODEL)


class DetectMetrics:
    """The series of one loaded image model."""

    def __init__(self, name: str, version: str) -> None:
        self.hits = LABELS.labels(name, version, HIT)
        self.misses = LABELS.labels(name, version, MISS)
        self.kept = LABELS_KEPT.labels(name, version)
        self.opening = OPENING.labels(name, version)
        self.regions = REGIONS.labels(name, version)

    def retire(self) -> None:
        """The model is no longer served."""
        self.kept.set(0)
