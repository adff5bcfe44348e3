"""onnxruntime-genai: its generator on a folder its model builder wrote, one prompt or equally long prompts.

python -m benchmarks.llm_peers.genai_peer FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from importlib.metadata import version

import numpy as np
import onnxruntime_genai

from benchmarks.llm_peers.worker import Peer, Prompt, run


class Genai(Peer):
    """A static batch: nothing joins or leaves it. It runs in the calling thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    async def start(self) -> None:
        config = onnxruntime_genai.Config(self._folder)
        config.overlay(
            '{"model": {"decoder": {"session_options": {"intra_op_num_threads": 1, "inter_op_num_threads": 1, '
            '"session.intra_op.allow_spinning": "0"}}}}'
        )
        self._model = onnxruntime_genai.Model(config)

    def versions(self) -> str:
        return f"onnxruntime-genai {version('onnxruntime-genai')}"

    async def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        for row in self._steps([prompt], count):
            yield [int(row[0])]

    async def at_once(self, prompts: Sequence[Prompt], count: int) -> list[list[int]]:
        rows = list(self._steps(prompts, count))
        return np.stack(rows, axis=1).tolist()

    def _steps(self, prompts: Sequence[Prompt], count: int):
        """The next token of every prompt, [prompts], `count` times. Raises ValueError for unequal prompts."""
        tokens = np.array([list(prompt) for prompt in prompts], np.int32)
        length = tokens.shape[1] + count
        settings = onnxruntime_genai.GeneratorParams(self._model)
        settings.set_search_options(do_sample=False, min_length=length, max_length=length, batch_size=len(prompts))
        generator = onnxruntime_genai.Generator(self._model, settings)
        generator.append_tokens(tokens)
        for _ in range(count):
            generator.generate_next_token()
            yield np.array(generator.get_next_tokens())


if __name__ == "__main__":
    run(Genai(sys.argv[1]))
