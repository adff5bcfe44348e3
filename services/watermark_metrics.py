"""Metrics of watermarks, per scheme and version; none of them says which message, key or text."""

from __future__ import annotations

import prometheus_client as prom

_SCHEME = ("model", "version")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
VERDICTS = ("marked", "not_marked", "inconclusive", "too_short")

SEGMENTS = prom.Counter(
    "pressroom_watermark_segments_total", "Segments of messages that were embedded in full in generated text.", _SCHEME
)
READINGS = prom.Counter(
    "pressroom_watermark_readings_total", "Texts read for a watermark, or checked for messages.", (*_SCHEME, "verdict")
)
READ_TOKENS = prom.Counter("pressroom_watermark_read_tokens_total", "Tokens of texts that were read.", _SCHEME)
READ_SECONDS = prom.Histogram(
    "pressroom_watermark_read_seconds",
    "Time to read one text for a watermark under all keys: from its turn to its verdict.",
    _SCHEME,
    buckets=_SECONDS,
)


class WatermarkMetrics:
    """The series of one scheme; they exist from the moment it is loaded."""

    def __init__(self, name: str, version: str) -> None:
        self._segments = SEGMENTS.labels(name, version)
        self._readings = {verdict: READINGS.labels(name, version, verdict) for verdict in VERDICTS}
        self._tokens, self._seconds = READ_TOKENS.labels(name, version), READ_SECONDS.labels(name, version)

    def embedded(self) -> None:
        """One more segment stands in a text in full."""
        self._segments.inc()

    def read(self, verdict: str, tokens: int, seconds: float) -> None:
        """One text has its verdict."""
        self._readings[verdict].inc()
        self._tokens.inc(tokens)
        self._seconds.observe(seconds)
