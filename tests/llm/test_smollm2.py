"""SmolLM2, pressed in float32 from the embedded checkpoint, says through the server what transformers says: 50 prompts.

`smollm2_greedy.json` holds transformers' tokens; `make_smollm2_greedy.py` made it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, running_server
from stores import run_press, shared_store
from text_server import CHAT, COMPLETIONS

ROOT = Path(__file__).resolve().parents[2]
NAME = "smollm2-fp32"
_PRESS = f"""
from export.llm import LlmJob, press
press(LlmJob(model="smollm2", name="{NAME}", precision="fp32", windows=1, tokens=64))
"""
GREEDY = json.loads(Path(__file__).with_name("smollm2_greedy.json").read_text())
AT_ONCE = 8  # requests that share steps, as they do in life


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    home = shared_store(tmp_path_factory, "smollm2", lambda home: run_press(home, _PRESS))
    settings = {"PRESSROOM_LLM_CONTEXT": "512", "PRESSROOM_LLM_SLOTS": str(AT_ONCE), "PRESSROOM_MODELS": NAME}
    with running_server(home, tmp_path_factory.mktemp("log") / "server.log", environment=settings) as server:
        yield server


def said(server: LiveServer, case: dict[str, Any]) -> tuple[list[int], str]:
    path = CHAT if "messages" in case else COMPLETIONS
    asked = {key: case[key] for key in ("messages", "prompt") if key in case}
    body = {"model": NAME, **asked, "max_tokens": GREEDY["max_tokens"], "temperature": 0, "return_token_ids": True}
    response = server.post(path, json=body, timeout=120)
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    return choice["token_ids"], choice["finish_reason"]


def test_fifty_prompts_are_answered_token_by_token_as_transformers_does(smollm2: LiveServer) -> None:
    cases = GREEDY["cases"]
    assert len(cases) == 50
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda case: said(smollm2, case), cases))
    wrong = [
        (case.get("prompt") or case["messages"], got, case["tokens"])
        for case, (got, reason) in zip(cases, answers, strict=True)
        if (got, reason) != (case["tokens"], case["finish_reason"])
    ]
    assert wrong == []
