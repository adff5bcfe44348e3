"""Label embeddings, kept: prompts go through the text tower once for each label and set of templates.

An ensemble of 63 prompts costs more than an image. Kept labels are bounded and the longest unused one goes first; two
requests that miss the same label wait for one computation; labels of several requests take turns.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.label_embeddings import NOTHING, LabelEmbedder
from models.clipself.pipeline.request import Labels
from services.core.call import Call
from services.core.errors import ApiError
from services.detect_metrics import DetectMetrics

Array = npt.NDArray[np.float32]
_Key = tuple[str, tuple[str, ...]]


class LabelBook:
    """Embeddings of one model's labels. Lives in the event loop; the text tower runs in a thread of its own."""

    def __init__(self, embedder: LabelEmbedder, kept: int, metrics: DetectMetrics) -> None:
        self._embedder, self._most, self._metrics = embedder, kept, metrics
        self._kept: OrderedDict[_Key, Array] = OrderedDict()
        self._coming: dict[_Key, asyncio.Future[Array]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="labels")

    async def rows(self, labels: Labels, call: Call, *, background: bool) -> Array:
        """float32 [C, E], or [C + 1, E] with the background's last. Raises ApiError if the deadline passes."""
        names = labels.names
        stored = self._embedder.background() if background else None
        if background and stored is None:
            names = (*names, NOTHING)
        keys = [(name, labels.templates) for name in names]
        missing = sum(self._have(key) is None for key in keys)
        self._metrics.misses.inc(missing)
        self._metrics.hits.inc(len(keys) - missing)
        rows = [await self._row(key, call) for key in keys]
        return np.stack(rows if stored is None else [*rows, stored])

    def close(self) -> None:
        """Let the thread end with what it has begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        return len(self._kept)

    async def _row(self, key: _Key, call: Call) -> Array:
        if (row := self._have(key)) is not None:
            return row
        if call.deadline is not None and perf_counter() > call.deadline:
            raise ApiError(
                "deadline_exceeded", "the deadline passed while labels were read", hint="they are kept: retry"
            )
        return await asyncio.shield(self._begin(key))

    def _have(self, key: _Key) -> Array | None:
        known = self._embedder.known(*key)
        if known is None and (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
        return known

    def _begin(self, key: _Key) -> asyncio.Future[Array]:
        coming = self._coming.get(key)
        if coming is None:
            loop = asyncio.get_running_loop()
            coming = self._coming[key] = loop.run_in_executor(self._thread, self._embedder.embed, *key)
            coming.add_done_callback(partial(self._keep, key))
        return coming

    def _keep(self, key: _Key, done: asyncio.Future[Array]) -> None:
        del self._coming[key]
        if done.cancelled() or done.exception() is not None:
            return
        self._kept[key] = done.result()
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        self._metrics.kept.set(len(self._kept))
