"""`example.json` of a language model: a greedy completion, and the answer the exported graph gave when it was pressed.

Other CPUs round otherwise, and where two tokens are about equally likely that changes the text. So the answer is cut
before the first such place; what remains is the same everywhere, and log-probabilities have a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from export.llm_cases import CODE, SHORT, log_softmax
from export.llm_graph import GRAPH
from export.llm_runner import GraphRunner
from export.llm_tokens import TOKENIZER
from models.llm.spec import LanguageModelSpec, Precision

LONGEST = 16  # tokens
CLEAR = 0.1  # nats between the likeliest token and the next
ATOL: dict[Precision, float] = {"fp32": 1e-3, "packed-2:4": 1e-3}
ATOL_QUANTISED = 0.05
PROMPTS = (SHORT, "Once upon a time", CODE, "1, 2, 3, 4,", "Hello", "The")
HALF = "�"  # how half a character decodes


@dataclass(frozen=True)
class Answer:
    """A greedy continuation: its tokens, their log-probabilities, and the text they add."""

    text: str
    tokens: list[int]
    logprobs: list[float]


class Completer:
    """Greedy completions straight from an artifact's files."""

    def __init__(self, files: Path, spec: LanguageModelSpec) -> None:
        self._tokenizer = Tokenizer.from_file(str(files / TOKENIZER))
        self._spec = spec
        longest = max(len(self.encode(prompt)) for prompt in PROMPTS) + LONGEST
        self._runner = GraphRunner(files / GRAPH, spec, rows=1, capacity=min(longest, spec.context_length))

    def encode(self, prompt: str) -> list[int]:
        """Plain text as the service encodes it."""
        begin = [self._spec.bos_token] if self._spec.add_bos and self._spec.bos_token is not None else []
        return begin + self._tokenizer.encode(prompt, add_special_tokens=False).ids

    def clear(self, prompt: str) -> Answer:
        """The longest answer of clear choices only, up to LONGEST tokens; may be empty."""
        return self._answer(prompt, LONGEST, CLEAR)

    def repeat(self, prompt: str, tokens: int) -> Answer:
        """So many tokens, clear or not."""
        return self._answer(prompt, tokens, 0.0)

    def _answer(self, prompt: str, tokens: int, margin: float) -> Answer:
        ids = self.encode(prompt)[: self._spec.context_length - LONGEST]
        chosen: list[int] = []
        found: list[float] = []
        scores = log_softmax(self._runner.last(0, ids))
        while len(chosen) < tokens:
            best, second = np.argsort(-scores, kind="stable")[:2]
            if best in self._spec.end_tokens or scores[best] - scores[second] < margin:
                break
            chosen.append(int(best))
            found.append(float(scores[best]))
            scores = log_softmax(self._runner.step([int(best)])[0])
        while chosen and margin and self._text(ids, chosen).endswith(HALF):
            chosen.pop()
        return Answer(self._text(ids, chosen), chosen, found[: len(chosen)])

    def _text(self, prompt: list[int], tokens: list[int]) -> str:
        before = self._tokenizer.decode(prompt)
        return self._tokenizer.decode([*prompt, *tokens])[len(before) :]


def make_example(completer: Completer, precision: Precision) -> dict[str, Any]:
    """The longest clear answer among PROMPTS as an OpenAI completion."""
    answers = {prompt: completer.clear(prompt) for prompt in PROMPTS}
    prompt = max(answers, key=lambda one: len(answers[one].tokens))
    answer = answers[prompt]
    scores = {"token_logprobs": [round(value, 6) for value in answer.logprobs]}
    count = len(answer.tokens)
    return {
        "request": {"prompt": prompt, "max_tokens": max(1, count), "temperature": 0, "logprobs": 0},
        "response": {"choices": [{"text": answer.text, "tokens": answer.tokens, "logprobs": scores}]},
        "tolerance": {"first_tokens": count, "atol": ATOL.get(precision, ATOL_QUANTISED)},
    }


def largest_difference(example: dict[str, Any], completer: Completer) -> tuple[float, bool]:
    """Repeat a recorded example: the largest difference of log-probabilities, and whether text and numbers hold."""
    request, expected = example["request"], example["response"]["choices"][0]
    got = completer.repeat(request["prompt"], len(expected["tokens"]))
    if (got.text, got.tokens) != (expected["text"], expected["tokens"]):
        return float("inf"), False
    wanted = expected["logprobs"]["token_logprobs"]
    worst = max((abs(a - b) for a, b in zip(got.logprobs, wanted, strict=True)), default=0.0)
    return worst, worst <= example["tolerance"]["atol"]
