"""Metrics of text generation, per model and version; written together with the others (`services.core.metrics`)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence

import prometheus_client as prom

from services.core.metrics import ModelMetrics, observe_all, write_with_all
from services.generation.observer import Load

_MODEL = ("model", "version")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
OUTCOMES = ("stop", "length", "cancelled", "deadline_exceeded", "inference_failed")

FIRST_TOKEN = prom.Histogram(
    "pressroom_llm_first_token_seconds",
    "Time to first token: from a sequence's submission (request read and checked) to its first token.",
    _MODEL,
    buckets=_SECONDS,
)
TOKEN_INTERVAL = prom.Histogram(
    "pressroom_llm_token_interval_seconds",
    "Inter-token latency: from one token of a sequence to its next.",
    _MODEL,
    buckets=_SECONDS,
)
PROMPT_TOKENS = prom.Counter(
    "pressroom_llm_prompt_tokens_total", "Tokens of the prompts that were begun, cached ones included.", _MODEL
)
CACHED_TOKENS = prom.Counter(
    "pressroom_llm_cached_tokens_total", "Prompt tokens that the prefix cache had; the rest was computed.", _MODEL
)
GENERATED_TOKENS = prom.Counter("pressroom_llm_generated_tokens_total", "Tokens generated.", _MODEL)
SEQUENCES = prom.Counter(
    "pressroom_llm_sequences_total",
    "Sequences that ended; outcome is `stop`, `length`, `cancelled` or an error code.",
    (*_MODEL, "outcome"),
)


def _gauge(name: str, meaning: str) -> prom.Gauge:
    return prom.Gauge(f"pressroom_llm_{name}", meaning, _MODEL, multiprocess_mode="livesum")


RUNNING = _gauge("running_sequences", "Sequences that hold a slot, in prefill or decoding.")
WAITING = _gauge("waiting_sequences", "Sequences in the queue.")
SLOTS = _gauge("slots", "Sequences that can run at once.")
KV_RESERVED = _gauge("kv_reserved_tokens", "Tokens of cache reserved by running sequences.")
KV_TOKENS = _gauge("kv_tokens", "Tokens of cache that running sequences may reserve.")
PREFIX_TOKENS = _gauge("prefix_tokens", "Tokens of cache kept for prompts that begin alike.")


class LlmMetrics:
    """The series of one loaded language model; the engine reports to it (`services.generation.observer`).

    Nothing is counted before `begin`: the warm-up is no caller's.
    """

    def __init__(self, name: str, version: str, model: ModelMetrics) -> None:
        self._model = model
        labels = (name, version)
        self._first_token, self._token_interval = FIRST_TOKEN.labels(*labels), TOKEN_INTERVAL.labels(*labels)
        self._prompt, self._cached = PROMPT_TOKENS.labels(*labels), CACHED_TOKENS.labels(*labels)
        self._generated = GENERATED_TOKENS.labels(*labels)
        self._outcomes = {outcome: SEQUENCES.labels(*labels, outcome) for outcome in OUTCOMES}
        gauges = (RUNNING, WAITING, SLOTS, KV_RESERVED, KV_TOKENS, PREFIX_TOKENS)
        self._gauges = [gauge.labels(*labels) for gauge in gauges]
        self._labels = labels
        self._load = Load(waiting=0, running=0, slots=0, kv_reserved=0, kv_tokens=0, prefix_held=0)
        self._firsts: list[float] = []
        self._intervals: list[float] = []
        self._counts = Tally[str]()
        self._ended = Tally[str]()
        self._begun = self._retired = False
        write_with_all(self)

    def begin(self) -> None:
        """The model is served from now on."""
        self._begun = True

    def load(self, load: Load) -> None:
        self._load = load
        self._model.queue(load.waiting)

    def step(self, prompt_tokens: int, tokens: int, intervals: Sequence[float], first: Sequence[float]) -> None:
        if not self._begun:
            return
        self._counts["generated"] += tokens
        self._intervals.extend(intervals)
        self._firsts.extend(first)

    def prefix(self, prompt_tokens: int, cached_tokens: int) -> None:
        if not self._begun:
            return
        self._counts["prompt"] += prompt_tokens
        self._counts["cached"] += cached_tokens

    def finished(self, outcome: str) -> None:
        if self._begun:
            self._ended[outcome] += 1

    def circuit(self, is_open: bool) -> None:
        self._model.circuit(is_open)

    def retire(self) -> None:
        """The model is no longer served: its gauges are another's from now on, if a version took its place."""
        for gauge in self._gauges:
            gauge.set(0)
        self._retired = True

    def write(self) -> None:
        """Bring the series up to date."""
        if not self._retired:
            now = self._load
            levels = (now.running, now.waiting, now.slots, now.kv_reserved, now.kv_tokens, now.prefix_held)
            for gauge, level in zip(self._gauges, levels, strict=True):
                gauge.set(level)
        firsts, self._firsts = self._firsts, []
        intervals, self._intervals = self._intervals, []
        observe_all(self._first_token, firsts)
        observe_all(self._token_interval, intervals)
        counts, self._counts = self._counts, Tally[str]()
        self._prompt.inc(counts["prompt"])
        self._cached.inc(counts["cached"])
        self._generated.inc(counts["generated"])
        ended, self._ended = self._ended, Tally[str]()
        for outcome, count in ended.items():
            series = self._outcomes.get(outcome) or SEQUENCES.labels(*self._labels, outcome)
            self._outcomes[outcome] = series
            series.inc(count)
