"""How fast two twins decode on this host, in turns, one thread each.

Protocol: float32, greedy, one sequence, a 40-token prompt. Time to first token is wall time of one step after the
prompt; tokens per CPU second counts the steps after it by process CPU time. The twins take turns, so that a busy
machine slows both; medians of the turns are kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

PROMPT, STEPS, TURNS = 40, 32, 5


@dataclass(frozen=True)
class Speed:
    """One twin's medians."""

    tokens_per_cpu_second: float
    ttft_ms: float


def compare_speed(twins: dict[str, nn.Module], prompt: Tensor) -> dict[str, Speed]:
    """prompt: int64 [T], its first PROMPT tokens are used."""
    ids = prompt[None, :PROMPT]
    turns: dict[str, list[Speed]] = {name: [] for name in twins}
    with _one_thread():
        for turn in range(TURNS + 1):
            for name, network in twins.items():
                measured = _turn(network, ids)
                if turn:  # the first turn warms caches
                    turns[name].append(measured)
    return {name: _median(measured) for name, measured in turns.items()}


def protocol() -> dict[str, Any]:
    """The protocol in numbers, for a receipt."""
    return {"prompt_tokens": PROMPT, "new_tokens": STEPS, "turns": TURNS, "threads": 1, "dtype": "float32", "batch": 1}


def _turn(network: nn.Module, ids: Tensor) -> Speed:
    start = time.perf_counter()
    first = _cpu_seconds(network, ids, 1)
    ttft = time.perf_counter() - start
    whole = _cpu_seconds(network, ids, 1 + STEPS)
    return Speed(STEPS / max(whole - first, 1e-9), ttft * 1000)


@torch.inference_mode()
def _cpu_seconds(network: Any, ids: Tensor, tokens: int) -> float:
    start = time.process_time()
    network.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
    )
    return time.process_time() - start


def _median(turns: list[Speed]) -> Speed:
    return Speed(
        statistics.median(turn.tokens_per_cpu_second for turn in turns),
        statistics.median(turn.ttft_ms for turn in turns),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
