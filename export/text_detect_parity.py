"""A detector's certificate: scores as the serving engine makes them against the generator's graph run on its own.

The reference is the exporter's small loop (`export.llm_runner`): a text in one piece, without slots, shared prefixes or
batches, and Fast-DetectGPT's closed form over whole rows of logits. Regenerations are the engine's, scored anew. What
the graph is worth against transformers is certified with the generator itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from export.artifact import Artifact
from export.environment import versions
from export.errors import ParityError
from export.llm_graph import GRAPH
from export.llm_runner import GraphRunner
from models.dna_gpt.one_pass import Moments, moments
from models.dna_gpt.parts import Parts
from models.dna_gpt.reading import Reading, Regeneration
from models.llm.spec import LanguageModelSpec

ATOL = {"fp32": 1e-3, "packed-2:4": 1e-3}
ATOL_QUANTISED = 0.05  # scores; a text is fed in chunks of another size, and quantised sums round there
FEWEST = 5  # texts

Scores = Mapping[str, float | None]


@dataclass(frozen=True)
class Finding:
    """One text: its tokens, those that are given, the regenerations, and both sides' scores."""

    name: str
    tokens: tuple[int, ...]
    given: int
    regenerations: tuple[tuple[int, ...], ...]
    served: Scores
    reference: Scores

    @property
    def difference(self) -> float:
        """The largest; infinite where one side has a score and the other has none."""
        pairs = [(self.served[name], self.reference[name]) for name in self.reference]
        if any((one is None) != (other is None) for one, other in pairs):
            return float("inf")
        found = [one - other for one, other in pairs if one is not None and other is not None]
        return float(np.abs(found).max())  # NaN if there is one, which no tolerance lets pass


class Reference:
    """The generator's graph, run alone."""

    def __init__(self, generator: Artifact, spec: LanguageModelSpec) -> None:
        self._graph, self._spec = generator.file(GRAPH), spec
        self._begin = (spec.bos_token,) if spec.add_bos and spec.bos_token is not None else ()

    def scores(self, parts: Parts, regenerations: Sequence[Regeneration]) -> Scores:
        """All statistics of a text; of regenerations, texts and tokens are taken over."""
        longest = max(len(parts.tokens), *(parts.given + len(one.tokens) for one in regenerations))
        runner = GraphRunner(self._graph, self._spec, rows=1, capacity=longest + len(self._begin))
        given = parts.tokens[: parts.given]
        again = tuple(
            Regeneration(one.text, one.tokens, tuple(self._moments(runner, given + one.tokens, len(given)).log_prob))
            for one in regenerations
        )
        return Reading(parts, self._moments(runner, parts.tokens, 1), again).scores()

    def _moments(self, runner: GraphRunner, tokens: tuple[int, ...], start: int) -> Moments:
        """Of tokens[start:]."""
        prompt = self._begin + tokens
        logits = np.concatenate(list(runner.prefill(0, prompt)))
        first = len(self._begin) + start
        return moments(logits[first - 1 : len(prompt) - 1], np.array(prompt[first:], np.int64))


def check(name: str, reading: Reading, reference: Reference) -> Finding:
    """What the engine said about a text, against the reference."""
    parts, found = reading.parts, reading.regenerations
    return Finding(
        name=name,
        tokens=parts.tokens,
        given=parts.given,
        regenerations=tuple(one.tokens for one in found),
        served=reading.scores(),
        reference=reference.scores(parts, found),
    )


def tolerance(spec: LanguageModelSpec) -> float:
    """What scores may differ by."""
    return ATOL.get(spec.precision, ATOL_QUANTISED)


def certificate(findings: Sequence[Finding], spec: LanguageModelSpec) -> dict[str, Any]:
    """The document `parity.json`. Raises ParityError where a text's scores differ too much."""
    bound = tolerance(spec)
    if len(findings) < FEWEST:
        raise ParityError(
            f"only {len(findings)} of the certificate's texts can be judged, {FEWEST} are needed",
            "the generator's context is too short; lower --fewest-words",
        )
    worst = next((one for one in findings if not one.difference <= bound), None)
    if worst is not None:
        raise ParityError(
            f"the engine's scores of the text {worst.name!r} differ from the graph's by {worst.difference:.1e}, "
            f"the tolerance is {bound:g}",
            "report it with the generator's type; nothing was stored",
        )
    return {
        "verdict": "pass",
        "max_abs": max(one.difference for one in findings),
        "tolerance": {"atol": bound, "rtol": 0.0},
        "runtime": "scores by the serving engine against the graph run alone",
        "cases": [asdict(one) | {"max_abs": one.difference} for one in findings],
        "versions": versions(),
    }
