"""The reference a pressed language model is held against: transformers, eager, float32, the same weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from export.hugging_face import transformers
from export.llm_cases import NEW, Case, Prompt, Row, summarise
from export.runner import one_thread


def answer(network: nn.Module, prompts: Mapping[str, Sequence[Prompt]]) -> list[Case]:
    """The cases with the reference's greedy tokens and scores. Each prompt is answered alone, and once."""
    with one_thread():
        rows = {prompt: _row(network, prompt) for prompt in dict.fromkeys(chain(*prompts.values()))}
    return [Case(name, tuple(rows[prompt] for prompt in given)) for name, given in prompts.items()]


@torch.inference_mode()
def _row(network: Any, prompt: Prompt) -> Row:
    cache = transformers().DynamicCache(config=network.config)
    found = network(torch.tensor([prompt]), cache=cache)
    logits, tokens = [found.logits[0]], [int(found.logits[0, -1].argmax())]
    while len(tokens) < NEW:
        found = network(torch.tensor([tokens[-1:]]), cache=cache)
        logits.append(found.logits[0])
        tokens.append(int(found.logits[0, -1].argmax()))
    return Row(prompt, tuple(tokens), summarise(np.asarray(torch.cat(logits).float().numpy())))


@torch.inference_mode()
def perplexity(network: Any, windows: Tensor) -> float:
    """Of windows int64 [n, T]: tokens 2..T of each, float32."""
    total = 0.0
    with one_thread():
        for ids in windows:
            logits = network(ids[None]).logits[0, :-1].float()
            total += float(functional.cross_entropy(logits, ids[1:], reduction="sum"))
    return math.exp(total / (windows.shape[0] * (windows.shape[1] - 1)))
