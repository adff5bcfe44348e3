"""Metrics of text: complete before the first request, true to the answers."""

from __future__ import annotations

from live_server import LiveServer, StartServer, eventually
from text_server import COMPLETIONS, FP32, INT8, answer, events

COUNTED = ("prompt_tokens_total", "cached_tokens_total", "generated_tokens_total", "first_token_seconds_count")
GAUGES = ("running_sequences", "waiting_sequences", "slots", "kv_reserved_tokens", "kv_tokens", "prefix_tokens")


def test_every_series_exists_and_is_zero_before_the_first_request(start_text: StartServer) -> None:
    fresh = start_text()
    names = {(name, labels) for name, labels in fresh.samples()}
    for model in (FP32, INT8):
        labels = frozenset({("model", model), ("version", "1")})
        for name in (*COUNTED, *GAUGES):
            assert (f"pressroom_llm_{name}", labels) in names
        for outcome in ("stop", "length", "cancelled"):
            assert fresh.metric("pressroom_llm_sequences_total", model=model, outcome=outcome) == 0
        for name in COUNTED:
            assert fresh.metric(f"pressroom_llm_{name}", model=model) == 0, "the warm-up is nobody's request"
        assert fresh.metric("pressroom_llm_slots", model=model) > 0
        assert fresh.metric("pressroom_llm_kv_tokens", model=model) > 0
        for route in (COMPLETIONS, "/v1/chat/completions"):
            assert fresh.metric("pressroom_requests_total", model=model, route=route, code="ok") == 0


def test_tokens_and_sequences_add_up_to_the_usage_of_the_answers(text: LiveServer) -> None:
    def counts() -> dict[str, float]:
        return {name: text.metric(f"pressroom_llm_{name}", model=FP32) for name in COUNTED}

    before, stages = counts(), text.metric("pressroom_stage_seconds_count", model=FP32, stage="inference")
    ended = text.metric("pressroom_llm_sequences_total", model=FP32)
    intervals = text.metric("pressroom_llm_token_interval_seconds_count", model=FP32)
    whole = answer(text, prompt=["metrics of this", "and of that"], n=2, max_tokens=7, ignore_eos=True)
    chunks = list(
        events(text, prompt="and a stream", max_tokens=5, ignore_eos=True, stream_options={"include_usage": True})
    )
    usages = [whole["usage"], chunks[-1]["usage"]]
    generated = sum(usage["completion_tokens"] for usage in usages)
    assert generated == 4 * 7 + 5
    eventually(
        lambda: text.metric("pressroom_llm_sequences_total", model=FP32) == ended + 5, "five sequences are counted"
    )
    after = counts()
    assert after["generated_tokens_total"] - before["generated_tokens_total"] == generated
    assert after["first_token_seconds_count"] - before["first_token_seconds_count"] == 5
    assert text.metric("pressroom_llm_token_interval_seconds_count", model=FP32) - intervals == generated - 5
    once_more = whole["usage"]["prompt_tokens"]  # the second choice of each prompt begins with it again
    prompts = sum(usage["prompt_tokens"] for usage in usages) + once_more
    assert after["prompt_tokens_total"] - before["prompt_tokens_total"] == prompts
    assert text.metric("pressroom_stage_seconds_count", model=FP32, stage="inference") == stages + 2


def test_an_idle_server_holds_nothing(text: LiveServer) -> None:
    answer(text, prompt="x", max_tokens=3)
    for name in ("running_sequences", "waiting_sequences", "kv_reserved_tokens"):
        eventually(lambda name=name: text.metric(f"pressroom_llm_{name}", model=FP32) == 0, f"{name} is zero")
