"""transformers: `generate` one prompt at a time, and its continuous batching of many.

python -m benchmarks.llm_peers.transformers_peer FOLDER float32|bfloat16 generate|batching
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence

import torch
import transformers
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig

from benchmarks.llm_peers.worker import Peer, Prompt, run

CAPACITY = 16  # sequences with room in the paged cache
PAGE = 64  # tokens of one page of one layer
SEQUENCE = 1024  # tokens of the longest sequence


class TransformersPeer(Peer):
    """A network in evaluation mode on one thread, with transformers' default attention (SDPA)."""

    def __init__(self, folder: str, dtype: str) -> None:
        self._folder, self._dtype = folder, getattr(torch, dtype)

    async def start(self) -> None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        self._model = AutoModelForCausalLM.from_pretrained(self._folder, dtype=self._dtype, local_files_only=True)
        self._model.eval()

    def versions(self) -> str:
        return f"transformers {transformers.__version__}, torch {torch.__version__}"


class Generate(TransformersPeer):
    """`generate`, which does not stream: its first token is the end of a one-token answer."""

    async def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        tokens = torch.tensor([list(prompt)])
        length = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False}
        with torch.inference_mode():
            found = self._model.generate(tokens, attention_mask=torch.ones_like(tokens), **length)
        yield found[0, len(prompt) :].tolist()


class Batching(TransformersPeer):
    """Continuous batching: a thread that works on whatever was added, streaming."""

    async def start(self) -> None:
        await super().start()
        self._model.generation_config = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
        config = ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=CAPACITY * SEQUENCE // PAGE,
            max_batch_tokens=512,
            allow_block_sharing=False,  # no answers from a prefix cache
        )
        with torch.inference_mode():  # its thread works in the mode it was started in
            self._manager = self._model.init_continuous_batching(continuous_batching_config=config)
            self._manager.start()

    async def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        results: asyncio.Queue[object] = asyncio.Queue()
        name = f"request-{id(results)}"
        self._manager.register_result_handler(name, results.put_nowait)
        self._manager.add_request(list(prompt), request_id=name, max_new_tokens=count, streaming=True)
        seen, ended = 0, False
        try:
            while not ended:
                result = await results.get()
                if result.error:
                    raise RuntimeError(result.error)
                ended = result.is_finished()
                tokens = list(result.generated_tokens)
                yield tokens[seen:]
                seen = len(tokens)
        finally:
            if not ended:
                self._manager.cancel_request(name)

    async def at_once(self, prompts: Sequence[Prompt], count: int) -> list[list[int]]:
        """Without streaming, which only costs."""
        results: asyncio.Queue[object] = asyncio.Queue()
        names = [f"whole-{id(results)}-{place}" for place in range(len(prompts))]
        for name, prompt in zip(names, prompts, strict=True):
            self._manager.register_result_handler(name, results.put_nowait)
            self._manager.add_request(list(prompt), request_id=name, max_new_tokens=count)
        found = [await results.get() for _ in prompts]
        by_name = {result.request_id: list(result.generated_tokens) for result in found}
        return [by_name[name] for name in names]

    async def close(self) -> None:
        self._manager.stop(hard_stop=True)


if __name__ == "__main__":
    kinds = {"generate": Generate, "batching": Batching}
    run(kinds[sys.argv[3]](sys.argv[1], sys.argv[2]))
