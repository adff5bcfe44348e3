"""What the engine is asked for and what it hands back, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
FinishReason = Literal["stop", "length"]


class LogitsProcessor(Protocol):
    """Changes the logits of the next token of one sequence; one object serves one sequence."""

    def __call__(self, prompt: Sequence[int], generated: Sequence[int], logits: Logits) -> None:
        """logits: float32 [vocabulary], changed in place, before penalties, temperature and truncation."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is drawn. temperature 0: the most likely token.

    top_k 0 and top_p 1 and min_p 0 leave the distribution whole; penalties follow the OpenAI definitions
    (presence, frequency: over generated tokens) and CTRL's (repetition: over prompt and generated tokens).
    """

    temperature: float = 1.0  # >= 0
    top_p: float = 1.0  # (0, 1]
    top_k: int = 0  # >= 0
    min_p: float = 0.0  # [0, 1]
    repetition_penalty: float = 1.0  # > 0
    presence_penalty: float = 0.0  # [-2, 2]
    frequency_penalty: float = 0.0  # [-2, 2]
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token -> [-100, 100]
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """One sequence to generate. Checked by the front end; the engine trusts it.

    prompt          token ids, at least one
    max_tokens      generated tokens at most; 0: score the prompt only
    stop            the text ends before the first of these strings
    logprobs        None: none; k >= 0: the chosen token's and the k likeliest tokens' log-probabilities
    prompt_logprobs the same for every prompt token after the first
    prompt_moments  with prompt_logprobs: the mean and the variance of the log-probability that could have come too
    grammar         an llguidance grammar the text must follow, or None
    processors      applied in order to every token's logits
    """

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_moments: bool = False
    grammar: str | None = None
    processors: tuple[LogitsProcessor, ...] = ()
    ignore_end: bool = False  # go on after the model's end token


@dataclass(frozen=True, slots=True)
class TokenScore:
    """Log-probability of a token under the model (softmax of the raw logits), and the likeliest alternatives.

    mean, variance  of the log-probability of a token drawn there, where they were asked for
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    mean: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step added to one sequence.

    text    newly certain text: whole characters only, nothing that may still become a stop string; may be empty
    tokens  ids the text was made of or that are still held back; the end token is never among them
    """

    text: str
    tokens: tuple[int, ...] = ()
    scores: tuple[TokenScore, ...] = ()
    finish_reason: FinishReason | None = None


@dataclass(slots=True)
class Usage:
    """Token counts of one sequence so far."""

    prompt_tokens: int = 0
    cached_tokens: int = 0  # of the prompt, taken from the prefix cache
    generated_tokens: int = 0
