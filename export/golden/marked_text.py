"""The texts of Balance-Marking cases, generated again by the case's generator (Llama, transformers' own).

Scores of a step are the network's logits (greedy) or log-probabilities (beams); suppressed ids are set to -1e9, every
token that stands in prompt or text loses `repeat_penalty` once, then the watermark comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from export.golden.case import CaseError, GoldenCase
from export.golden.proxy_network import UNKNOWN
from export.hugging_face import transformers
from models.balance_marking.encoder import Marker

SUPPRESSED = -1e9
EMBEDDING = "model.embed_tokens.weight"
Seen = Callable[[list[int], Tensor, Tensor], None]  # generated, scores before and after the watermark


@torch.no_grad()
def generate(case: GoldenCase, tokens: int, marker: Marker | None) -> list[int]:
    """Greedy continuation of the case's prompt by `tokens` tokens."""
    network, prompt = _generator(case), case.tensors["input.prompt_ids"].tolist()
    ids = torch.tensor([prompt])
    for _ in range(tokens):
        scores = _prepared(case, ids, network(input_ids=ids, use_cache=False).logits[:, -1])[0]
        if marker is not None:
            marker(prompt, ids[0, len(prompt) :].tolist(), scores.numpy())
        ids = torch.cat([ids, scores.argmax().reshape(1, 1)], dim=1)
    return [int(token) for token in ids[0, len(prompt) :]]


@torch.no_grad()
def beam_search(case: GoldenCase, tokens: int, marker: Marker, beams: int, seen: Seen) -> list[int]:
    """The best of `beams` continuations; `seen` hears of every row of every step."""
    network, prompt = _generator(case), case.tensors["input.prompt_ids"]

    def process(ids: Tensor, scores: Tensor) -> Tensor:
        rows = _prepared(case, ids, scores)
        for row, scored in zip(ids[:, len(prompt) :].tolist(), rows, strict=True):
            before = scored.clone()
            marker(prompt.tolist(), row, scored.numpy())
            seen(row, before, scored)
        return rows

    library: Any = transformers()
    settings = library.GenerationConfig(
        num_beams=beams, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0, use_cache=False
    )
    answer = network.generate(  # type: ignore[operator]
        prompt[None],
        attention_mask=torch.ones_like(prompt[None]),
        generation_config=settings,
        logits_processor=[process],
    )
    return [int(token) for token in answer[0, len(prompt) :]]


def _prepared(case: GoldenCase, ids: Tensor, scores: Tensor) -> Tensor:
    """float32 [rows, V]: suppressed and penalised, a copy."""
    prepared = scores.float().clone()
    prepared[:, case.config.get("suppressed_ids", [])] = SUPPRESSED
    penalty = float(case.config.get("repeat_penalty", 0.0))
    for row, present in zip(prepared, ids, strict=True):
        row[present.unique()] -= penalty
    return prepared


def _generator(case: GoldenCase) -> nn.Module:
    """Evaluation mode, the case's weights; a head the case does not hold is the embedding."""
    settings = {name: value for name, value in case.config["generator"].items() if name != "class"}
    library, vocabulary = transformers(), int(case.config["vocab"])
    config = library.LlamaConfig(
        vocab_size=vocabulary, max_position_embeddings=2048, bos_token_id=None, eos_token_id=None, **settings
    )
    network, state = library.LlamaForCausalLM(config), case.group("state_generator")
    if EMBEDDING in state:
        state.setdefault("lm_head.weight", state[EMBEDDING])
    try:
        network.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise CaseError(f"{case.path.name}: generator weights and configuration disagree ({error})") from error
    loaded: nn.Module = network.eval()
    return loaded


def vocabulary_map(case: GoldenCase) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Each generator token's proxy token by its string, the proxy's unknown token for others; None: one vocabulary."""
    words, proxy_words = case.config.get("vocabulary"), case.config.get("proxy_vocabulary")
    if not isinstance(words, list) or not isinstance(proxy_words, list):
        return None
    place = {word: index for index, word in enumerate(proxy_words)}
    return np.array([place.get(word, place[UNKNOWN]) for word in words], np.int64)
