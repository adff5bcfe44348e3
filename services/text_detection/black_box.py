"""Black box: an endpoint elsewhere continues the given part; only words are compared. What comes is used."""

from __future__ import annotations

import asyncio
from collections import Counter
from time import perf_counter

from models.dna_gpt.detector import DetectorSpec
from models.dna_gpt.parts import Parts
from models.dna_gpt.reading import Reading, Regeneration
from services.core.call import Call
from services.text_detection.asking import Asked, Work
from services.text_detection.upstream import Upstream, UpstreamError, UpstreamOptions

_FOR_THE_REST_S = 0.5  # of a request's time, kept for what follows the last regeneration


class BlackBox:
    """Asks one endpoint."""

    def __init__(self, options: UpstreamOptions, spec: DetectorSpec) -> None:
        self.upstream = options.model
        self._options = options
        self._spec = spec
        self._connected: Upstream | None = None

    async def ask(self, parts: Parts, regenerations: int, call: Call, work: Work) -> Asked:
        """Never raises: a regeneration that fails, or does not come in the request's time, is counted as missing."""
        upstream = self._connect()
        began = perf_counter()
        left = None if call.deadline is None else max(0.0, call.deadline - began - _FOR_THE_REST_S)
        tasks = [asyncio.create_task(self._regenerate(upstream, parts, number)) for number in range(regenerations)]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=left)
        finally:
            for task in tasks:
                task.cancel()
        found: list[Regeneration] = []
        failures: Counter[str] = Counter()
        for task in tasks:
            result = task.result() if task.done() and not task.cancelled() else "timeout"
            if isinstance(result, Regeneration):
                found.append(result)
            else:
                failures[result] += 1
        work.note(began, began, perf_counter(), 1)
        return Asked(Reading(parts, None, tuple(found)), failures)

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.close()

    async def _regenerate(self, upstream: Upstream, parts: Parts, number: int) -> Regeneration | str:
        """A continuation, or why there is none."""
        spec = self._spec
        tokens = min(spec.regeneration_tokens, len(parts.tokens) - parts.given)
        try:
            text = await upstream.continued(
                parts.prefix.rstrip(), tokens=tokens, temperature=spec.temperature, seed=spec.seed + number
            )
        except UpstreamError as fault:
            return fault.reason
        return Regeneration(text)

    def _connect(self) -> Upstream:
        """In the event loop that asks first."""
        if self._connected is None:
            self._connected = Upstream(self._options)
        return self._connected
