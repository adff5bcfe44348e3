"""The real vLLM, where it is installed (an environment of its own, as it wants an older transformers):

    python -m benchmarks.llm --peers vllm-bf16      makes that environment, out/peers/vllm

Starting vLLM takes minutes on a small machine; all tests share one engine.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_tools import GREEDY, Answer, Tally, answer_of
from tiny_llm import CONTEXT, VOCABULARY, make_tiny_llama

from models.llm.spec import LanguageModelSpec
from services.core.call import Call
from services.generation.grammar import json_schema_grammar, regex_grammar
from services.generation.options import EngineOptions
from services.generation.processors import REGISTRY
from services.generation.request import GenerationRequest

pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

PROMPTS = ["The river", "In 1994 the", "né 🙂 ", "a", "<s>Once upon a time there was"]
TOKENS = 24
SPEC = LanguageModelSpec(
    vocabulary=VOCABULARY,
    layers=2,
    kv_heads=2,
    head_dim=32,
    context_length=CONTEXT,
    precision="fp32",
    bos_token=0,
    end_tokens=(1,),
    add_bos=True,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_llama(tmp_path_factory.mktemp("vllm-llama"), head_dim=32)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all tests, as vLLM's client lives in one."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def vllm(folder: Path, runner: asyncio.Runner) -> Iterator[Any]:
    import vllm_ban  # noqa: F401 -- registers a processor

    from services.generation.vllm_backend import open_vllm

    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_CPU_CI_ENV", "1")  # no compilation
    options = EngineOptions(slots=8, context=128, prefix_tokens=0)
    engine = open_vllm(folder, folder / "tokenizer.json", SPEC, options, Tally())
    yield engine
    runner.run(engine.close())


@pytest.fixture(scope="module")
def ask(vllm: Any, runner: asyncio.Runner) -> Any:
    """ask(text, ...) -> Answer; ask(text, text, ...): several at once, in a list."""

    def submit(text: str, options: dict[str, Any]) -> Any:
        fields = {"max_tokens": TOKENS, "sampling": GREEDY} | options
        request = GenerationRequest(prompt=tuple(vllm.tokenizer.encode(text)), **fields)
        return vllm.submit(request, Call("/v1/completions", "none", "r"))

    async def together(texts: tuple[str, ...], options: dict[str, Any]) -> list[Answer]:
        return await asyncio.gather(*(answer_of(submit(text, options)) for text in texts))

    return lambda *texts, **options: runner.run(together(texts, options))


@pytest.fixture(scope="module")
def network(folder: Path) -> Any:
    from export.hugging_face import load_network

    return load_network(folder)


def logits_of(network: Any, tokens: list[int]) -> Any:
    import torch

    with torch.inference_mode():
        return network(torch.tensor([tokens])).logits[0].float().numpy()


def greedy(network: Any, prompt: list[int], count: int) -> list[int]:
    """What transformers says, token by token."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + count:
        token = int(logits_of(network, tokens)[-1].argmax())
        if token == 1:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def test_greedy_answers_are_transformers(ask: Any, vllm: Any, network: Any) -> None:
    for text, answer in zip(PROMPTS, ask(*PROMPTS), strict=True):
        expected = greedy(network, vllm.tokenizer.encode(text), TOKENS)
        assert answer.tokens == expected
        assert answer.text == vllm.tokenizer.decode(expected)


def test_log_probabilities_are_transformers(ask: Any, vllm: Any, network: Any) -> None:
    (answer,) = ask(PROMPTS[0], max_tokens=4, logprobs=2, prompt_logprobs=0)
    prompt = vllm.tokenizer.encode(PROMPTS[0])
    logits = logits_of(network, prompt + answer.tokens)
    logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    said = [
        score.logprob for score in (*answer.generation.prompt_scores, *(s for p in answer.pieces for s in p.scores))
    ]
    tokens = [*prompt[1:], *answer.tokens]
    np.testing.assert_allclose(said, [logprobs[place, token] for place, token in enumerate(tokens)], atol=1e-3)
    assert all(len(score.top) == 2 for piece in answer.pieces for score in piece.scores)


def test_processors_of_the_registry_change_the_text_over_there(ask: Any, vllm: Any, network: Any) -> None:
    (free,) = ask(PROMPTS[0])
    arguments = {"test_ban": free.tokens[0]}
    (banned, beside) = ask(PROMPTS[0], PROMPTS[1], processors=REGISTRY.make(arguments, vllm.spec, vllm.tokenizer))
    assert free.tokens[0] not in banned.tokens
    assert all(one != other for one, other in zip(banned.tokens, banned.tokens[1:], strict=False))
    assert beside.tokens != banned.tokens
    (again,) = ask(PROMPTS[0])
    assert again.tokens == free.tokens


def test_grammars_hold(ask: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 22]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    (answer,) = ask("Numbers: ", grammar=json_schema_grammar(schema), max_tokens=60)
    assert json.loads(answer.text)["n"] in (1, 22)
    (digits,) = ask("Digits: ", grammar=regex_grammar("[0-9]{4}"))
    assert (len(digits.text), digits.text.isdigit(), digits.reason) == (4, True, "stop")


def test_leaving_frees_the_place_over_there(vllm: Any, runner: asyncio.Runner) -> None:
    async def leave() -> int:
        request = GenerationRequest(prompt=(5, 6, 7), max_tokens=100, sampling=GREEDY, ignore_end=True)
        generation = vllm.submit(request, Call("/v1/completions", "none", "r"))
        await anext(generation)
        generation.cancel()
        async with asyncio.timeout(30):
            while vllm.load.running or vllm._client._engine.get_num_unfinished_requests():
                await asyncio.sleep(0.01)
        return generation.usage.generated_tokens

    assert runner.run(leave()) < 100


def test_a_prompt_is_scored_without_an_answer(ask: Any, vllm: Any) -> None:
    (answer,) = ask(PROMPTS[0], max_tokens=0, prompt_logprobs=0)
    assert (answer.text, answer.reason) == ("", "length")
    assert len(answer.generation.prompt_scores) == len(vllm.tokenizer.encode(PROMPTS[0])) - 1
