"""White box: the served language model scores a text and continues its given part, as sequences of its engine.

The text is scored first, in one sequence without an answer; the given part it leaves in the prefix cache is where all
K regenerations begin, as one batch.
"""

from __future__ import annotations

import logging

import numpy as np

from models.dna_gpt.detector import DetectorSpec
from models.dna_gpt.one_pass import Moments
from models.dna_gpt.parts import Parts
from models.dna_gpt.reading import Reading, Regeneration
from services.core.call import Call
from services.generation.generation import Generation
from services.generation.pool import EngineHold
from services.generation.request import GenerationRequest, Sampling, TokenScore
from services.text_detection.asking import Asked, Work, together

log = logging.getLogger("pressroom.text_detect")


class WhiteBox:
    """Asks the engine that is held. At most `slots` sequences of one request are at work at once."""

    upstream = ""

    def __init__(self, hold: EngineHold, spec: DetectorSpec) -> None:
        self._hold = hold
        self._engine = hold.engine
        self._spec = spec
        language = hold.engine.spec
        begins = language.bos_token if language.add_bos else None
        self._begin = () if begins is None else (begins,)

    @property
    def context(self) -> int:
        """Tokens of a text that can be read."""
        return self._engine.context - len(self._begin)

    async def ask(self, parts: Parts, regenerations: int, call: Call, work: Work) -> Asked:
        moments = await self._score(parts, call, work)
        found = await together(self._regenerate(parts, number, call, work) for number in range(regenerations))
        return Asked(Reading(parts, moments, tuple(found)))

    async def close(self) -> None:
        await self._hold.release()

    async def _score(self, parts: Parts, call: Call, work: Work) -> Moments:
        """Log-probability, its mean and its variance of every token after the first."""
        request = GenerationRequest(
            prompt=self._begin + parts.tokens, max_tokens=0, prompt_logprobs=0, prompt_moments=True
        )
        generation = self._engine.submit(request, call)
        async for _ in generation:
            pass
        _note(generation, work)
        scores = generation.prompt_scores[len(self._begin) :]
        columns = ([s.logprob for s in scores], [s.mean for s in scores], [s.variance for s in scores])
        return Moments(*(np.array(column, np.float64) for column in columns))

    async def _regenerate(self, parts: Parts, number: int, call: Call, work: Work) -> Regeneration:
        request = GenerationRequest(
            prompt=self._begin + parts.tokens[: parts.given],
            max_tokens=min(self._spec.regeneration_tokens, len(parts.tokens) - parts.given),
            sampling=Sampling(temperature=self._spec.temperature, seed=self._spec.seed + number),
            logprobs=0,
        )
        generation = self._engine.submit(request, call)
        texts: list[str] = []
        scores: list[TokenScore] = []
        async for piece in generation:
            texts.append(piece.text)
            scores.extend(piece.scores)
        _note(generation, work)
        return Regeneration("".join(texts), tuple(s.token for s in scores), tuple(s.logprob for s in scores))


def _note(generation: Generation, work: Work) -> None:
    work.note(generation.submitted, generation.began, generation.ended, max(1, generation.batch_rows))
