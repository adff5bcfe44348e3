"""What a detector is beside the language model it uses; stored as `settings` in its artifact's manifest.

A threshold belongs to one generator, one statistic, one way of asking and one kind of text: all of it is kept here, so
that a verdict can name what it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from models.dna_gpt.rate import Rate
from models.dna_gpt.traits import Coverage
from models.dna_gpt.weighting import WEIGHTINGS

Mode = Literal["white_box", "black_box"]
MODES: tuple[Mode, ...] = get_args(Mode)
W_SCORE, CURVATURE, MEAN_LOG_PROB = "w_score", "curvature", "mean_log_prob"
ONE_PASS = (CURVATURE, MEAN_LOG_PROB)  # need no regeneration
STATISTICS: Mapping[Mode, tuple[str, ...]] = {
    "white_box": (W_SCORE, *ONE_PASS, *WEIGHTINGS),
    "black_box": tuple(WEIGHTINGS),
}


@dataclass(frozen=True, kw_only=True)
class Generator:
    """The language model that is suspected: an artifact, and the digest of its tokenizer."""

    name: str
    version: str
    digest: str
    tokenizer_digest: str


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A calibration in short; the artifact's `calibration.json` has the curve and the scores behind it.

    id               names this threshold for ever: of its content
    upstream         the model behind the endpoint, for black box; "" for white box
    threshold        a score above it: machine; at or below human_threshold: human
    declared_rate    of human texts called machine, at most
    false_positives, true_positives  on the texts it was calibrated on, at `confidence`; area: under the curve
    """

    id: str
    mode: Mode
    statistic: str
    upstream: str
    regenerations: int
    threshold: float
    human_threshold: float
    declared_rate: float
    confidence: float
    humans: int
    machines: int
    false_positives: Rate
    true_positives: Rate
    area: Rate
    coverage: Coverage

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Threshold:
        """Raises KeyError, TypeError or ValueError."""
        rates = {name: Rate(**settings[name]) for name in ("false_positives", "true_positives", "area")}
        return cls(**{**settings, **rates, "coverage": Coverage(**settings["coverage"])})


@dataclass(frozen=True, kw_only=True)
class DetectorSpec:
    """How texts are read, asked about and judged.

    ratio                of a text's words that are given; the rest is judged
    regenerations        K of the judged part
    temperature, seed    of the regenerations: the k-th is drawn with seed + k, so that a text always scores the same
    most_words           of a text that are read
    regeneration_tokens  of one regeneration, at most; never more than the judged part has
    fewest_words, fewest_distinct   below them nothing is said
    white_box, black_box  the statistic a verdict rests on where the request names none
    """

    generator: Generator
    ratio: float = 0.5
    regenerations: int = 5
    temperature: float = 0.7
    seed: int = 0
    most_words: int = 400
    regeneration_tokens: int = 300
    fewest_words: int = 50
    fewest_distinct: int = 25
    white_box: str = CURVATURE
    black_box: str = "demo"
    thresholds: tuple[Threshold, ...] = ()

    def __post_init__(self) -> None:
        positive = ("regenerations", "most_words", "regeneration_tokens", "fewest_words", "fewest_distinct")
        for name in positive:
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected a whole number from 1")
        if not 0 < self.ratio < 1:
            raise ValueError(f"ratio: got {self.ratio}, expected a number between 0 and 1")
        if self.temperature <= 0:
            raise ValueError(f"temperature: got {self.temperature}, expected more than 0")
        for mode in MODES:
            if self.statistic(mode) not in STATISTICS[mode]:
                expected = ", ".join(STATISTICS[mode])
                raise ValueError(f"{mode}: got {self.statistic(mode)!r}, expected one of {expected}")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> DetectorSpec:
        """Read the manifest's `settings`. Raises KeyError, TypeError or ValueError if they are not a detector's."""
        thresholds = tuple(Threshold.from_settings(one) for one in settings["thresholds"])
        return cls(**{**settings, "generator": Generator(**settings["generator"]), "thresholds": thresholds})

    def as_settings(self) -> dict[str, Any]:
        """JSON for the manifest; `from_settings` reads it."""
        return asdict(self) | {"thresholds": [asdict(one) for one in self.thresholds]}

    def statistic(self, mode: Mode) -> str:
        """The one a verdict of this mode rests on by default."""
        return self.white_box if mode == "white_box" else self.black_box

    def threshold(self, mode: Mode, statistic: str, upstream: str = "") -> Threshold | None:
        """The calibrated one, if there is one."""
        wanted = (mode, statistic, upstream)
        return next((one for one in self.thresholds if (one.mode, one.statistic, one.upstream) == wanted), None)

    def calibrated(self, thresholds: tuple[Threshold, ...]) -> DetectorSpec:
        """With these thresholds instead of those for the same modes and endpoints."""
        renewed = {(one.mode, one.upstream) for one in thresholds}
        kept = tuple(one for one in self.thresholds if (one.mode, one.upstream) not in renewed)
        return replace(self, thresholds=kept + thresholds)
