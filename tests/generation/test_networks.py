"""Graph and cache: a sequence's logits do not depend on its mates, its chunks or the prefix cache; transformers agrees.

All comparisons of the graph with itself are bit for bit, in float32 and int8.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from engine_tools import OpenGraph, StartEngine

from models.llm.spec import LanguageModelSpec
from services.core.runtime import RuntimeOptions
from services.generation.cache_memory import CacheMemory
from services.generation.faults import GraphError
from services.generation.onnx_backend import OnnxBackend
from services.generation.request import Sampling
from services.generation.sampling import scores
from services.generation.torch_backend import TorchBackend

LENGTHS = (5, 40, 64, 1, 17, 33, 128, 2)


def prompts(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(2, 320) for _ in range(length)] for length in lengths]


def steps(backend: OnnxBackend | TorchBackend, asked: list[list[int]], count: int) -> np.ndarray:
    """Logits [count, n, V] of greedy steps of all prompts together."""
    latest = np.array([int(backend.prefill(slot, 0, prompt, False).argmax()) for slot, prompt in enumerate(asked)])
    lengths = np.array([len(prompt) for prompt in asked])
    found = []
    for _ in range(count):
        found.append(backend.decode(0, latest, lengths).copy())
        latest, lengths = found[-1].argmax(axis=1), lengths + 1
    return np.stack(found)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_eight_ragged_rows_are_bit_for_bit_those_of_each_alone(open_graph: OpenGraph, precision: str) -> None:
    backend = open_graph(precision)
    together = steps(backend, prompts(), 6)
    for row, prompt in enumerate(prompts()):
        assert np.array_equal(together[:, row], steps(backend, [prompt], 6)[:, 0])


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_prompt_is_bit_for_bit_the_same_in_chunks_of_any_size_of_two_or_more(
    open_graph: OpenGraph, precision: str
) -> None:
    backend = open_graph(precision, slots=2)
    (prompt,) = prompts((90,))
    whole = backend.prefill(0, 0, prompt, True).copy()
    for sizes in ([2] * 45, [7] * 12 + [6], [16, 2, 70, 2], [64, 26]):
        at = 0
        for size in sizes:
            chunk = backend.prefill(1, at, prompt[at : at + size], True)
            assert np.array_equal(chunk, whole[at : at + size])
            at += size
        assert at == 90
        assert np.array_equal(backend.read(1, 0, 90), backend.read(0, 0, 90))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
async def test_answers_are_the_same_alone_in_company_and_from_the_prefix_cache(
    open_graph: OpenGraph, start_engine: StartEngine, precision: str
) -> None:
    """Moved between slots, shared while worked on, restored from the cache: token and log-probability exactly."""
    start = prompts((50,), seed=5)[0]
    asked = [[*start[: 10 + 7 * i], *tail] for i, tail in enumerate(prompts((3, 9, 2, 4, 30, 5), seed=6))] * 2
    warm = Sampling(temperature=0.8, top_p=0.95, seed=3)
    found = []
    for options in ({"prefix_tokens": 0, "prefill_chunk": 200}, {"prefix_tokens": 400, "prefill_chunk": 9}):
        async with start_engine(open_graph(precision, slots=4), **options) as asker:
            answers = []
            if options["prefix_tokens"]:
                answers = await asyncio.gather(
                    *(asker.ask(p, 5 + i, sampling=warm, logprobs=0, ignore_end=True) for i, p in enumerate(asked))
                )
                assert sum(answer.generation.usage.cached_tokens for answer in answers) > 100
            else:
                for i, prompt in enumerate(asked):
                    answers.append(await asker.ask(prompt, 5 + i, sampling=warm, logprobs=0, ignore_end=True))
            found.append([(answer.tokens, answer.logprobs, answer.text) for answer in answers])
    assert found[0] == found[1]


async def test_the_same_seed_gives_the_same_text_with_and_without_mates(
    open_graph: OpenGraph, start_engine: StartEngine
) -> None:
    async with start_engine(open_graph()) as asker:
        hot = [Sampling(temperature=1.2, seed=seed, top_k=50) for seed in range(8)]
        mine = prompts((12,), seed=9)[0]
        together = await asyncio.gather(*(asker.ask(mine, 20, sampling=one, ignore_end=True) for one in hot))
        alone = [await asker.ask(mine, 20, sampling=one, ignore_end=True) for one in hot]
        assert [a.tokens for a in together] == [a.tokens for a in alone]
        assert len({tuple(a.tokens) for a in alone}) > 1


def test_the_graphs_logits_are_those_of_transformers(
    open_graph: OpenGraph, tiny_folder: Path, spec: LanguageModelSpec
) -> None:
    oracle = TorchBackend(tiny_folder, spec, 8, spec.context_length, RuntimeOptions())
    graph = open_graph()
    for prompt in prompts():
        np.testing.assert_allclose(
            graph.prefill(0, 0, prompt, True), oracle.prefill(0, 0, prompt, True), rtol=1e-3, atol=1e-3
        )
    ours, theirs = steps(graph, prompts(), 10), steps(oracle, prompts(), 10)
    assert np.array_equal(ours.argmax(axis=2), theirs.argmax(axis=2))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


async def test_greedy_answers_are_token_for_token_those_of_transformers_generate(
    open_graph: OpenGraph, start_engine: StartEngine, tiny_folder: Path, spec: LanguageModelSpec
) -> None:
    import torch

    oracle = TorchBackend(tiny_folder, spec, 4, spec.context_length, RuntimeOptions())
    asked = prompts((3, 10, 25, 40, 60, 7), seed=4)
    expected = [
        oracle._network.generate(
            torch.tensor([p]), attention_mask=torch.ones(1, len(p)), max_new_tokens=20, do_sample=False, pad_token_id=2
        )[0, len(p) :].tolist()
        for p in asked
    ]
    expected = [[t for t in tokens if t not in spec.end_tokens] for tokens in expected]
    for backend in (open_graph(slots=4), oracle):
        async with start_engine(backend, prefill_chunk=8) as asker:
            answers = await asyncio.gather(*(asker.ask(p, 20) for p in asked))
            assert [a.tokens for a in answers] == expected


async def test_scores_are_those_of_the_networks_logits(open_graph: OpenGraph, start_engine: StartEngine) -> None:
    (prompt,) = prompts((30,))
    graph = open_graph(slots=2)
    rows = graph.prefill(0, 0, prompt, True).copy()
    async with start_engine(graph, prefill_chunk=7) as asker:
        answer = await asker.ask(
            prompt, 3, logprobs=2, prompt_logprobs=3, sampling=Sampling(temperature=1, seed=1, logit_bias={5: 90.0})
        )
    expected = [scores(row, token, 3) for row, token in zip(rows[:-1], prompt[1:], strict=True)]
    assert answer.generation.prompt_scores == expected
    assert answer.tokens == [5, 5, 5]
    assert answer.pieces[0].scores[0] == scores(rows[-1], 5, 2)


def test_a_graph_of_another_kind_is_refused(
    artifact: Callable[[str], Path], spec: LanguageModelSpec, tiny_folder: Path
) -> None:
    deeper = dataclasses.replace(spec, layers=spec.layers + 1)
    with pytest.raises(GraphError):
        OnnxBackend(artifact("fp32") / "model.onnx", deeper, 2, 64, 8, RuntimeOptions())
    with pytest.raises(GraphError, match="layers"):
        TorchBackend(tiny_folder, deeper, 2, 64, RuntimeOptions())


def test_a_slots_memory_is_given_back_and_its_neighbours_keep_theirs() -> None:
    memory = CacheMemory((2, 3, 2, 100, 8))
    memory.array[:] = 7
    memory.release(1)
    assert (memory.array[:, [0, 2]] == 7).all()
    given_back = (memory.array[:, 1] == 0).mean()
    assert given_back > 0.3  # whole pages inside the slot


def test_memory_is_taken_where_tokens_are_written_only() -> None:
    """As much address space as nobody has memory for."""
    memory = CacheMemory((16, 64, 8, 16384, 64))
    assert memory.array.nbytes == 16 * 64 * 8 * 16384 * 64 * 4
    memory.array[0, 0, 0, 0] = 1
    assert memory.array[15, 63, 7, 16383, 63] == 0
