"""Scores through the engine against transformers and closed forms, alone and in company."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from detecting import PROSE, Store
from tiny_llm import make_tiny_llama

from export.hugging_face import transformers
from export.text_detect_cases import TEXTS
from models.dna_gpt.parts import head
from services.core.call import Call
from services.text_detect import TextDetectModel
from services.text_detection.asking import Asked

BOS = 0
CASES = [PROSE, *(head(text, 40) for text in TEXTS.values())]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tiny model in transformers, float32."""
    folder = make_tiny_llama(tmp_path_factory.mktemp("tiny-llama"))
    return transformers().AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture
async def model(found_here: Store) -> Any:
    loaded = found_here.load("1", llm_slots=4)
    yield loaded
    await loaded.close()


def call() -> Call:
    return Call("/v1/text/detect", "http", "id-1")


async def asked_about(model: TextDetectModel, text: str) -> Asked:
    _, asked = await model.detection.ask(text, "white_box", 2, call())
    assert asked is not None
    return asked


def table_of(network: Any, tokens: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 [T - 1, V], what may follow each token of a text, and [T - 1], what did; the model begins with <s>."""
    with torch.inference_mode():
        logits = network(torch.tensor([(BOS, *tokens)])).logits[0, 1:-1]
    table = torch.log_softmax(logits.double(), dim=-1)
    return table, table[torch.arange(len(table)), torch.tensor(tokens[1:])]


@pytest.mark.parametrize("text", CASES)
async def test_scores_are_those_of_transformers_log_probabilities(
    model: TextDetectModel, network: Any, text: str
) -> None:
    """W, curvature and mean written down once more, from the papers, over another library's logits; 1e-3: float32."""
    reading = (await asked_about(model, text)).reading
    parts, scores = reading.parts, reading.scores()
    table, own = table_of(network, parts.tokens)
    mean = (table.exp() * table).sum(-1)
    variance = (table.exp() * table**2).sum(-1) - mean**2
    baselines = []
    for one in reading.regenerations:
        _, found = table_of(network, parts.tokens[: parts.given] + one.tokens)
        baselines.append(found[parts.given - 1 :].mean())
    wanted = {
        "mean_log_prob": own.mean(),
        "curvature": (own - mean).sum() / variance.sum().sqrt(),
        "w_score": own[parts.given - 1 :].mean() - torch.stack(baselines).mean(),
    }
    for name, value in wanted.items():
        assert scores[name] == pytest.approx(value.item(), abs=1e-3), name


async def test_a_text_scores_the_same_alone_and_among_others(model: TextDetectModel) -> None:
    alone = await model.answer({"text": CASES[1]}, call())
    others = asyncio.gather(*(model.answer({"texts": CASES[2:5], "regenerations": 3}, call()) for _ in range(2)))
    among = await model.answer({"texts": [CASES[2], CASES[1]]}, call())
    await others
    assert among["texts"][1] == alone["texts"][0]


async def test_tokens_are_cut_where_the_words_are_and_none_changes(model: TextDetectModel) -> None:
    parts = (await asked_about(model, PROSE)).reading.parts
    decode = model.detection._tokenizer.decode
    assert parts.prefix.split() + parts.remainder.split() == PROSE.split()
    assert len(parts.prefix.split()) == len(PROSE.split()) // 2
    assert decode(parts.tokens[: parts.given]).strip() == parts.prefix.strip()
    assert decode(parts.tokens[parts.given :]).strip() == parts.remainder


async def test_special_tokens_written_in_a_text_are_characters(model: TextDetectModel) -> None:
    text = PROSE.replace("three", "</s> three <s>")
    parts = (await asked_about(model, text)).reading.parts
    assert not {0, 1} & set(parts.tokens)
    assert model.detection._tokenizer.decode(parts.tokens) == text


async def test_regenerations_are_drawn_by_their_numbers(model: TextDetectModel) -> None:
    two = (await asked_about(model, PROSE)).reading.regenerations
    _, three = await model.detection.ask(PROSE, "white_box", 3, call())
    assert three is not None
    assert three.reading.regenerations[:2] == two
    assert len({one.tokens for one in three.reading.regenerations}) == 3


async def test_a_text_longer_than_the_context_is_read_as_far_as_it_goes(found_here: Store) -> None:
    model = found_here.load("1", llm_slots=4, llm_context=80)
    (text,) = (await model.answer({"text": PROSE}, call()))["texts"]
    await model.close()
    assert text["text"]["characters"] < len(PROSE)
    assert [note["code"] for note in text["warnings"]] == ["text_truncated", "not_calibrated"]
    assert np.isfinite(text["score"])
