"""How the tests ask a server that marks. Texts are capitals and digits, whose tokens survive being text."""

from __future__ import annotations

from typing import Any

from live_server import LiveServer

LLM, SCHEME = "tiny-fp32", "tiny-mark"
GENERATE, DECODE, VERIFY = (f"/v1/watermark/{task}" for task in ("generate", "decode", "verify"))
TOKENS = 110
SECRETS = {"new": "5a" * 32, "old": "c3" * 32}
BODY: dict[str, Any] = {"prompt": "Hello", "guided_regex": f"[A-Z0-9]{{{TOKENS}}}", "max_tokens": TOKENS}
Json = dict[str, Any]


def answer(server: LiveServer, path: str, **body: Any) -> Json:
    """The answer of a route, which must be one."""
    response = server.post(path, json=body, timeout=60)
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


def error(server: LiveServer, path: str, **body: Any) -> Json:
    """The refusal of a route, which must be one."""
    response = server.post(path, json=body, timeout=60)
    assert 400 <= response.status_code < 500, response.text
    found: Json = response.json()["error"]
    return {"status": response.status_code, **found}


def generate(server: LiveServer, **watermark: Any) -> Json:
    """A marked text."""
    return answer(server, GENERATE, **BODY, seed=len(str(watermark)), watermark=watermark)


def read(server: LiveServer, text: str, **asked: Any) -> Json:
    """What a text says."""
    [found] = answer(server, DECODE, text=text, **asked)["results"]
    result: Json = found
    return result


def completed(server: LiveServer, **more: Any) -> str:
    """The text of a completion."""
    text: str = answer(server, "/v1/completions", **BODY, **{"model": LLM, **more})["choices"][0]["text"]
    return text
