"""Wanda: a weight matters as much as what usually flows through it (Sun et al., ICLR 2024, section 3).

score = |w| * ||x||, x the weight's input channel over the calibration tokens. Compared per output row.
"""

from __future__ import annotations

from torch import Tensor


def wanda_score(weight: Tensor, energy: Tensor) -> Tensor:
    """float [R, C], float [C] (||x||^2, see `activations`) -> [R, C]."""
    return weight.abs() * energy.sqrt()
