"""Our engine on an artifact's folder, one thread, without HTTP.

python -m benchmarks.llm_peers.pressroom_peer FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path

from benchmarks.llm_peers.worker import Peer, Prompt, run
from models.llm.spec import LanguageModelSpec
from services.core.call import Call
from services.core.runtime import RuntimeOptions
from services.core.version import VERSION
from services.generation.observer import Unobserved
from services.generation.opening import BackendOptions, open_engine
from services.generation.options import EngineOptions
from services.generation.request import GenerationRequest, Sampling

GREEDY = Sampling(temperature=0)


class Pressroom(Peer):
    """`services.generation`, as the server runs it; every prompt is new, so that the prefix cache never helps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def start(self) -> None:
        settings = json.loads((self._folder / "artifact.json").read_bytes())["settings"]
        spec = LanguageModelSpec.from_settings(settings)
        options = EngineOptions(context=1024)
        backend = BackendOptions(runtime=RuntimeOptions(threads=1))
        self._engine = open_engine(self._folder, spec, options, backend, Unobserved())

    def versions(self) -> str:
        return f"pressroom {VERSION}, onnxruntime {version('onnxruntime')}"

    async def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        request = GenerationRequest(prompt=tuple(prompt), max_tokens=count, sampling=GREEDY, ignore_end=True)
        async with aclosing(self._engine.submit(request, Call("/v1/completions", "none", "benchmark"))) as generation:
            async for piece in generation:
                yield list(piece.tokens)

    async def close(self) -> None:
        await self._engine.close()


if __name__ == "__main__":
    run(Pressroom(Path(sys.argv[1])))
