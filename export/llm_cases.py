"""Prompts a language model's certificate is made on, and what is kept of the reference's answers to them.

short, one token, code, other scripts, several hundred tokens, a chat where the model has a template: batches of one;
then seven of different lengths together. Each is followed by NEW tokens the reference finds likeliest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import TemplateError

from export.errors import CheckpointFileError
from models.llm.spec import LanguageModelSpec

NEW = 16  # greedy tokens after each prompt
KEPT = 64  # likeliest tokens whose log-probabilities are kept, a position
SLICE = 64  # positions summarised at once
LONG = 384  # tokens of the long prompt
SHORT = "The capital of France is"
CODE = "def fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n    return "
SCRIPTS = "Москва — столица России. 東京は日本の首都です。 القاهرة عاصمة مصر. Ναι! 🙂 Zoë"
TEXTS = {"short": SHORT, "code": CODE, "scripts": SCRIPTS}
QUESTION = "What is the capital of France?"

Prompt = tuple[int, ...]


@dataclass(frozen=True)
class Scores:
    """A reference's opinion at P positions: its KEPT likeliest tokens, best first, and their log-probabilities.

    tokens int64 [P, KEPT], logprobs float32 [P, KEPT]
    """

    tokens: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One sequence: a prompt and NEW greedy tokens of the reference; its scores after each token but the last."""

    prompt: Prompt
    answer: Prompt
    scores: Scores

    @property
    def sequence(self) -> Prompt:
        return self.prompt + self.answer


@dataclass(frozen=True)
class Case:
    """Rows that are answered together."""

    name: str
    rows: tuple[Row, ...]


def plan_prompts(tokenizer: Any, spec: LanguageModelSpec, text: Sequence[int]) -> dict[str, list[Prompt]]:
    """Prompts of each case. text: tokens of a held text, the long prompt's source."""
    room = spec.context_length - NEW
    long = tuple(text[:LONG])
    written = {name: tuple(tokenizer(words)["input_ids"]) for name, words in TEXTS.items()}
    cases = {"short": [written["short"]], "one-token": [written["short"][:1]], "code": [written["code"]]}
    cases |= {"scripts": [written["scripts"]], "long": [long]}
    if tokenizer.chat_template:
        cases["chat"] = [tuple(_chat(tokenizer))]
    others = [long[: len(long) // 2], long[: len(long) // 7], long[-33:]]
    cases["ragged-7"] = [cases[name][0] for name in ("one-token", "short", "code", "scripts")] + others
    return {name: [prompt[:room] for prompt in prompts] for name, prompts in cases.items()}


def summarise(logits: npt.NDArray[np.float32]) -> Scores:
    """Logits float32 [P, V] -> what is kept of them; in slices, because V is large."""
    parts = [_likeliest(logits[at : at + SLICE]) for at in range(0, len(logits), SLICE)]
    tokens, logprobs = (np.concatenate(one) for one in zip(*parts, strict=True))
    return Scores(tokens, logprobs)


def _likeliest(logits: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    kept = min(KEPT, logits.shape[1])
    best = np.argpartition(-logits, kept - 1, axis=1)[:, :kept]
    order = np.argsort(-np.take_along_axis(logits, best, axis=1), axis=1, kind="stable")
    tokens = np.take_along_axis(best, order, axis=1)
    return tokens, np.take_along_axis(log_softmax(logits), tokens, axis=1)


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Along the last axis, summed in float64."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted, dtype=np.float64).sum(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(total), np.float32)


def save_cases(cases: Sequence[Case]) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, for a safetensors file."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for case in cases:
        for index, row in enumerate(case.rows):
            stem = f"{case.name}/{index}"
            arrays[f"{stem}/prompt"] = np.array(row.prompt, np.int64)
            arrays[f"{stem}/answer"] = np.array(row.answer, np.int64)
            arrays[f"{stem}/tokens"] = row.scores.tokens.astype(np.int32)
            arrays[f"{stem}/logprobs"] = row.scores.logprobs
    return arrays


def load_case(name: str, rows: int, arrays: dict[str, npt.NDArray[Any]]) -> Case:
    """A case as `save_cases` wrote it. Raises KeyError where arrays are missing."""
    return Case(name, tuple(_row(f"{name}/{index}", arrays) for index in range(rows)))


def _row(stem: str, arrays: dict[str, npt.NDArray[Any]]) -> Row:
    scores = Scores(arrays[f"{stem}/tokens"].astype(np.int64), arrays[f"{stem}/logprobs"])
    return Row(tuple(arrays[f"{stem}/prompt"].tolist()), tuple(arrays[f"{stem}/answer"].tolist()), scores)


def _chat(tokenizer: Any) -> list[int]:
    messages = [{"role": "user", "content": QUESTION}]
    try:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        message = f"the chat template fails on a user's question: {error}"
        raise CheckpointFileError(message, "mend or remove the template") from error
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
