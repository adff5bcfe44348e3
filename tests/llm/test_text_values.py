"""What the served model says is what transformers says, whoever else is asking, and the same again every time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from live_server import LiveServer
from text_server import CHAT, CONTEXT, FP32, INT8, answer, ask, tokens_of

PROMPTS = [
    "The capital", "a", "Zwölf Boxkämpfer", "def f(x):\n    return", "🙂🙂", "1, 2, 3,", "Water", "  leading", "?!",
]  # fmt: skip


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same network in transformers: (ids, new tokens) -> greedy tokens; and its logits."""
    from tiny_llm import make_tiny_llama
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = make_tiny_llama(tmp_path_factory.mktemp("oracle"))
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def greedy(oracle: Any, ids: list[int], count: int) -> list[int]:
    """Greedy continuation, without the end token."""
    import torch

    model, tokenizer = oracle
    inputs = torch.tensor([ids])
    out = model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=count, do_sample=False)
    tokens: list[int] = out[0, len(ids) :].tolist()
    return tokens[: tokens.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in tokens else tokens


def test_greedy_answers_are_those_of_transformers(text: LiveServer, oracle: Any) -> None:
    _, tokenizer = oracle
    for prompt in PROMPTS:
        expected = greedy(oracle, tokenizer(prompt)["input_ids"], 24)
        got = answer(text, prompt=prompt, max_tokens=24, temperature=0, return_token_ids=True)
        assert tokens_of(got) == [expected], prompt


def test_chats_are_written_and_answered_as_transformers_does(text: LiveServer, oracle: Any) -> None:
    _, tokenizer = oracle
    talk = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Grüß Gott"}]
    ids = tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=True)["input_ids"]
    got = answer(text, CHAT, messages=talk, max_tokens=20, temperature=0, return_token_ids=True)
    assert tokens_of(got) == [greedy(oracle, ids, 20)]
    assert got["usage"]["prompt_tokens"] == len(ids)


def test_log_probabilities_are_those_of_the_network(text: LiveServer, oracle: Any) -> None:
    import torch

    model, tokenizer = oracle
    ids = tokenizer("The capital")["input_ids"]
    got = answer(text, prompt="The capital", max_tokens=6, temperature=0, logprobs=3, echo=True, return_token_ids=True)
    tokens = ids + tokens_of(got)[0]
    with torch.no_grad():
        expected = torch.log_softmax(model(torch.tensor([tokens])).logits[0], -1).numpy()
    scores = got["choices"][0]["logprobs"]
    assert scores["token_logprobs"][0] is None
    own = [expected[i, token] for i, token in enumerate(tokens[1:])]
    np.testing.assert_allclose(scores["token_logprobs"][1:], own, atol=1e-4)
    for i, alternatives in enumerate(scores["top_logprobs"][1:]):
        best = np.sort(expected[i])[::-1][:3]
        np.testing.assert_allclose(sorted(alternatives.values())[::-1][:3], best, atol=1e-4)


def test_a_prompt_can_be_scored_without_an_answer(text: LiveServer) -> None:
    whole = answer(text, prompt="The capital", max_tokens=4, temperature=0, logprobs=0, echo=True)["choices"][0]
    only = answer(text, prompt="The capital", max_tokens=0, logprobs=0, echo=True)["choices"][0]
    assert only["text"] == "The capital"
    assert only["finish_reason"] == "length"
    count = len(only["logprobs"]["tokens"])
    assert only["logprobs"]["tokens"] == whole["logprobs"]["tokens"][:count]
    np.testing.assert_allclose(only["logprobs"]["token_logprobs"][1:], whole["logprobs"]["token_logprobs"][1:count])


@pytest.mark.parametrize("model", [FP32, INT8])
def test_an_answer_does_not_depend_on_who_else_asks(text: LiveServer, model: str) -> None:
    """24 ragged requests on 8 slots, greedy and drawn, against each of them alone."""
    lengths = [1, 3, 17, 40, 90, 5, 64, 33]
    bodies = [
        {"prompt": ("word " * length)[: length + 3], "max_tokens": 12, "seed": i, "temperature": [0, 0.9, 1.3][i % 3]}
        for i, length in enumerate(lengths * 3)
    ]

    def one(body: dict[str, Any]) -> list[list[int]]:
        return tokens_of(answer(text, model=model, return_token_ids=True, **body))

    alone = [one(body) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        assert list(pool.map(one, bodies)) == alone


def test_the_same_seed_says_the_same_and_another_something_else(text: LiveServer) -> None:
    drawn = {"prompt": "Once", "max_tokens": 20, "temperature": 1.0, "return_token_ids": True}
    first, again, other = (tokens_of(answer(text, seed=seed, **drawn)) for seed in (1, 1, 2))
    assert first == again != other
    several = answer(text, seed=1, n=3, **drawn)
    assert tokens_of(several)[0] == first[0]
    assert tokens_of(several)[1] == other[0]


def test_a_repeated_prompt_is_taken_from_the_prefix_cache_and_answered_alike(text: LiveServer) -> None:
    body = {"prompt": "a long beginning " * 6 + "cache", "max_tokens": 8, "temperature": 0, "return_token_ids": True}
    first, second = answer(text, **body), answer(text, **body)
    assert tokens_of(first) == tokens_of(second)
    details = second["usage"]["prompt_tokens_details"]
    assert 0 < details["cached_tokens"] < second["usage"]["prompt_tokens"]


def test_a_whole_context_is_answered_and_one_token_more_is_refused(text: LiveServer) -> None:
    prompt = [5] * (CONTEXT - 4)
    got = answer(text, prompt=prompt, max_tokens=4, ignore_eos=True, return_token_ids=True)
    assert (got["usage"]["total_tokens"], got["choices"][0]["finish_reason"]) == (CONTEXT, "length")
    assert ask(text, prompt=prompt, max_tokens=5).json()["error"]["code"] == "context_length_exceeded"


def test_a_json_schema_is_followed_to_its_end(text: LiveServer) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["ok", "n"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    for seed in range(5):
        got = answer(text, prompt="JSON:", max_tokens=120, seed=seed, temperature=0.7, response_format=form)
        choice = got["choices"][0]
        assert choice["finish_reason"] == "stop", choice
        thing = json.loads(choice["text"])
        assert isinstance(thing["ok"], bool)
        assert 0 <= thing["n"] <= 99


def test_choices_and_expressions_are_followed(text: LiveServer) -> None:
    for seed in range(3):
        chosen = answer(text, prompt="x", max_tokens=20, seed=seed, guided_choice=["völlig", "gar nicht"])
        assert chosen["choices"][0]["text"] in ("völlig", "gar nicht")
        matched = answer(text, prompt="x", max_tokens=20, seed=seed, guided_regex="[a-c]{3}[0-9]")["choices"][0]["text"]
        assert len(matched) == 4
        assert set(matched[:3]) <= set("abc")
        assert matched[3].isdigit()


def test_a_biased_token_is_the_only_one(text: LiveServer) -> None:
    got = answer(text, prompt="x", max_tokens=5, logit_bias={"70": 100}, temperature=0, return_token_ids=True)
    assert tokens_of(got) == [[70] * 5]
