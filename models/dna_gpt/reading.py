"""Everything the scores of one text rest on, and all its scores by name: higher means more machine-like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from models.dna_gpt.black_box import BlackBoxReading, read_black_box
from models.dna_gpt.detector import CURVATURE, MEAN_LOG_PROB, ONE_PASS, W_SCORE
from models.dna_gpt.evidence import Run, find_runs
from models.dna_gpt.one_pass import Moments, curvature, mean_log_prob
from models.dna_gpt.parts import Parts
from models.dna_gpt.sentences import SentenceScore, black_box_scores, white_box_scores
from models.dna_gpt.weighting import WEIGHTINGS
from models.dna_gpt.white_box import WhiteBoxReading, read_white_box


@dataclass(frozen=True)
class Regeneration:
    """A continuation of the given part: its text, and for white box its tokens with their log-probabilities."""

    text: str
    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Reading:
    """One text, asked about.

    moments        white box: of the tokens after the first; None for black box
    regenerations  those that came
    """

    parts: Parts
    moments: Moments | None
    regenerations: tuple[Regeneration, ...]

    @cached_property
    def white(self) -> WhiteBoxReading | None:
        """The W-score and what it is made of, where there are log-probabilities and regenerations."""
        if self.moments is None:
            return None
        return read_white_box(self._judged, [one.log_probs for one in self.regenerations])

    @cached_property
    def black(self) -> BlackBoxReading:
        """Overlaps with every regeneration."""
        return read_black_box(self.parts.remainder, self._texts)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The evidence: words of the judged part that a regeneration has too; places count in the whole text."""
        return find_runs(self.parts.text, self._texts, position=self.parts.position)

    def scores(self) -> dict[str, float | None]:
        """Every statistic of the mode by name; None where it cannot be told."""
        overlaps = {name: self.black.score(weighting) for name, weighting in WEIGHTINGS.items()}
        if self.moments is None:
            return dict(overlaps)
        whole = {
            W_SCORE: self.white.score if self.white else None,
            CURVATURE: curvature(self.moments),
            MEAN_LOG_PROB: mean_log_prob(self.moments.log_prob.tolist()),
        }
        return whole | overlaps

    def sentence_scores(self, statistic: str) -> list[SentenceScore]:
        """What each sentence adds: of a statistic of log-probabilities, its own mean a token; of overlaps, its share.

        Without regenerations the baseline of log-probabilities is the text's own mean.
        """
        parts = self.parts
        if self.moments is None or statistic in WEIGHTINGS:
            return black_box_scores(parts.text, self.runs, parts.position)
        if statistic in ONE_PASS or self.white is None:
            found = self.moments.log_prob.tolist()
            return white_box_scores(parts.text, parts.starts[1:], found, mean_log_prob(found) or 0.0)
        return white_box_scores(parts.text, parts.starts[parts.given :], self._judged, self.white.baseline)

    @property
    def _judged(self) -> Sequence[float]:
        assert self.moments is not None
        judged: list[float] = self.moments.log_prob[self.parts.given - 1 :].tolist()  # the first token has none
        return judged

    @property
    def _texts(self) -> list[str]:
        return [one.text for one in self.regenerations]
