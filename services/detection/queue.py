"""Images of several requests in one pass: the tensors a batcher joins, and the engine behind it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.engine import Engine, Seen, Wanted
from services.core.batcher import Batcher, BatchObserver, BatchPolicy
from services.core.call import Call
from services.core.tensors import Tensors

Array = npt.NDArray[np.float32]


class ImageQueue:
    """The queue of one model's images. Images of one size share a pass, and their boxes one RoIAlign call."""

    def __init__(self, engine: Engine, policy: BatchPolicy, observer: BatchObserver) -> None:
        # not a method of ours: model and batcher would hold each other, and an unloaded model would stay in memory
        self._batcher = Batcher(partial(_run, engine), policy, observer)

    async def look(self, pixels: Array, wanted: Wanted, call: Call) -> Seen:
        """pixels float32 [3, S, S]. Raises what the batcher raises."""
        (answer,) = await self._batcher.submit([{"pixels": pixels[None], "wanted": _boxed(wanted)}], call)
        seen: Seen = answer["seen"][0]
        return seen

    async def classify(self, pixels: Array, call: Call) -> Array:
        """Embedding [E] of a whole image."""
        (answer,) = await self._batcher.submit([{"whole": pixels[None]}], call)
        embedding: Array = answer["embedding"][0]
        return embedding

    async def close(self) -> None:
        """Finish accepted work and stop."""
        await self._batcher.close()


def _run(engine: Engine, tensors: Tensors) -> Tensors:
    if "whole" in tensors:
        return {"embedding": engine.classify(tensors["whole"])}
    found = engine.look(tensors["pixels"], list(tensors["wanted"]))
    return {"seen": np.concatenate([_boxed(one) for one in found])}


def _boxed(item: Any) -> npt.NDArray[np.object_]:
    """One object as a tensor of one row."""
    row = np.empty(1, dtype=object)
    row[0] = item
    return row
