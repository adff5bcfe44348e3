"""The scores by name: one signature for all, whatever they read of the calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from models.pruning.errors import PruningError
from models.pruning.magnitude import magnitude_score
from models.pruning.ria import relative_importance, ria_score
from models.pruning.wanda import wanda_score


@dataclass(frozen=True)
class Score:
    """score(weight [R, C], energy [C], power) -> [R, C]. per_output: how its paper compares without a pattern."""

    name: str
    of: Callable[[Tensor, Tensor, float], Tensor]
    reads_activations: bool
    per_output: bool


SCORES = {
    score.name: score
    for score in (
        Score("magnitude", lambda weight, energy, power: magnitude_score(weight), False, False),
        Score("ri", lambda weight, energy, power: relative_importance(weight), False, False),
        Score("wanda", lambda weight, energy, power: wanda_score(weight, energy), True, True),
        Score("ria", ria_score, True, False),
    )
}


def score_named(name: str) -> Score:
    """Raises PruningError listing the known names."""
    if name not in SCORES:
        raise PruningError("method", repr(name), " or ".join(SCORES), "Name one of these.")
    return SCORES[name]
