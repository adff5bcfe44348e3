"""The tiny service's language model: it says every word of the prompt again, in capitals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tiny_service import DIGEST, STAGES, RefusalError

Json = dict[str, Any]
ROUTES = ("POST /v1/completions", "POST /v1/chat/completions")
UNFORTUNATE = "UNFORTUNATE"  # a stream breaks off after this word
DOOMED = "DOOMED"  # a stream fails after this word


def answer(request: Json, request_id: str) -> Json:
    """The whole answer to a completion or a chat."""
    is_chat = "messages" in request
    texts = [" ".join(words) for words in _words(request)]
    return {
        **_head(is_chat, request_id),
        "choices": [_choice(is_chat, i, text, bool(request.get("logprobs"))) for i, text in enumerate(texts)],
        "usage": _usage(texts),
        "pressroom": _explanation(request_id),
    }


def events(request: Json, request_id: str) -> Iterator[bytes]:
    """The same as server-sent events, a word each; with empty lines and comments between them, as proxies add."""
    is_chat, words = "messages" in request, _words(request)
    head = {**_head(is_chat, request_id), "object": "chunk", "usage": None}
    for i, said in enumerate(words):
        for j, word in enumerate(said):
            text = word if j == 0 else f" {word}"
            spoken = {"delta": {"content": text}} if is_chat else {"text": text}
            yield b": a comment\n\n"
            yield _event({**head, "choices": [{"index": i, **spoken, "logprobs": None, "finish_reason": None}]})
            if word == UNFORTUNATE:
                return
            if word == DOOMED:
                error = {"code": "inference_failed", "message": "the model failed", "field": None, "hint": None}
                yield _event({"error": {**error, "request_id": request_id}})
                return
        ended = {"delta": {}} if is_chat else {"text": ""}
        yield _event({**head, "choices": [{"index": i, **ended, "logprobs": None, "finish_reason": "stop"}]})
    texts = [" ".join(said) for said in words]
    yield _event({**head, "choices": [], "usage": _usage(texts), "pressroom": _explanation(request_id)})
    yield b"data: [DONE]\r\n\r\n"


def _words(request: Json) -> list[list[str]]:
    if "messages" in request:
        prompts = [request["messages"][-1]["content"]]
    else:
        prompts = request["prompt"] if isinstance(request["prompt"], list) else [request["prompt"]]
    if not all(prompts):
        raise RefusalError("empty_prompt", 422, "INVALID_ARGUMENT", field="prompt")
    return [prompt.upper().split(" ") for prompt in prompts for _ in range(request.get("n", 1))]


def _head(is_chat: bool, request_id: str) -> Json:
    return {
        "id": f"id-{request_id}",
        "object": "chat.completion" if is_chat else "text_completion",
        "created": 1_700_000_000,
        "model": "parrot",
        "system_fingerprint": DIGEST,
    }


def _choice(is_chat: bool, index: int, text: str, scored: bool) -> Json:
    scores: Json | None = None
    if scored and is_chat:
        top = [{"token": "X", "logprob": -1.5, "bytes": [88]}]
        scores = {"content": [{"token": text, "logprob": -0.5, "bytes": [], "top_logprobs": top}], "refusal": None}
    elif scored:
        scores = {"tokens": ["a", text], "token_logprobs": [None, -0.5], "top_logprobs": [None, {"X": -1.5}]}
        scores["text_offset"] = [0, 1]
    spoken: Json = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    return {"index": index, **spoken, "logprobs": scores, "finish_reason": "stop"}


def _usage(texts: list[str]) -> Json:
    tokens = sum(len(text.split(" ")) for text in texts)
    return {
        "prompt_tokens": tokens,
        "completion_tokens": tokens,
        "total_tokens": 2 * tokens,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


def _explanation(request_id: str) -> Json:
    explained = {"model": "parrot", "version": "7", "digest": DIGEST, "request_id": request_id}
    return {**explained, "timings": STAGES, "batch_rows": 1}


def _event(document: Json) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"
