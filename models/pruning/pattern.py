"""Sparsity patterns: which weights of a matrix go, given a score for each.

In   score  float [R, C]   R outputs, C inputs; the higher, the more a weight matters
Out  keep   bool [R, C]    True where the weight stays

N:M here names what is KEPT (2:4 keeps two of four neighbouring inputs), as hardware and papers do; the official RIA
tool names what is pruned. Groups of M run along the inputs of one output, from input 0 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from models.pruning.errors import PruningError


class Pattern(Protocol):
    """A rule that a pruned matrix keeps."""

    @property
    def sparsity(self) -> float:
        """Share of weights the rule removes, 0..1."""

    def keep(self, score: Tensor) -> Tensor:
        """bool [R, C]; raises PruningError where the matrix does not fit the rule."""

    def obeyed_by(self, weight: Tensor) -> bool:
        """Does a pruned matrix have at least the zeros the rule asks for, where it asks for them?"""


@dataclass(frozen=True)
class WholeMatrix:
    """The lowest scores of the whole matrix go, wherever they are.

    Everything up to and including the score at sorted position int(R * C * sparsity) is removed, so one weight more
    than the share says, and all that tie with it: the official program's rule.
    """

    sparsity: float

    def __post_init__(self) -> None:
        check_sparsity(self.sparsity)

    def keep(self, score: Tensor) -> Tensor:
        position = int(score.numel() * self.sparsity)
        threshold = score.flatten().kthvalue(position + 1).values
        return score > threshold

    def obeyed_by(self, weight: Tensor) -> bool:
        return int((weight == 0).sum()) >= int(weight.numel() * self.sparsity)

    def __str__(self) -> str:
        return f"unstructured {self.sparsity:g}"


@dataclass(frozen=True)
class PerOutput:
    """The int(C * sparsity) lowest scores of every output row go; of equal ones the first inputs."""

    sparsity: float

    def __post_init__(self) -> None:
        check_sparsity(self.sparsity)

    def keep(self, score: Tensor) -> Tensor:
        return lowest_removed(score, int(score.shape[1] * self.sparsity))

    def obeyed_by(self, weight: Tensor) -> bool:
        return bool(((weight == 0).sum(dim=1) >= int(weight.shape[1] * self.sparsity)).all())

    def __str__(self) -> str:
        return f"unstructured {self.sparsity:g} per output"


@dataclass(frozen=True)
class NM:
    """`kept` of every `of` neighbouring inputs of an output stay.

    Of equal scores those stay that `topk` leaves: arbitrary but repeatable, and as the official program's do.
    """

    kept: int
    of: int

    def __post_init__(self) -> None:
        if not 0 < self.kept < self.of:
            remedy = "2:4 keeps two of every four; name the kept number first."
            raise PruningError("pattern", f"{self.kept}:{self.of}", "N:M with 0 < N < M", remedy)

    @property
    def sparsity(self) -> float:
        return 1 - self.kept / self.of

    def keep(self, score: Tensor) -> Tensor:
        rows = self.groups(score)  # [R * C/M, M]
        removed = rows.topk(self.of - self.kept, dim=1, largest=False).indices
        return torch.ones_like(rows, dtype=torch.bool).scatter_(1, removed, False).reshape(score.shape)

    def obeyed_by(self, weight: Tensor) -> bool:
        return bool(((self.groups(weight) != 0).sum(dim=1) <= self.kept).all())

    def groups(self, matrix: Tensor) -> Tensor:  # [R, C] -> [R * C/M, M]
        if matrix.shape[1] % self.of:
            remedy = "Choose an M that divides the number of inputs, or prune without a pattern."
            raise PruningError("pattern", f"{self} on {matrix.shape[1]} inputs", f"a multiple of {self.of}", remedy)
        return matrix.reshape(-1, self.of)

    def __str__(self) -> str:
        return f"{self.kept}:{self.of}"


def lowest_removed(rows: Tensor, count: int) -> Tensor:  # [R, C] -> bool [R, C], False at `count` places a row
    order = torch.sort(rows, dim=-1, stable=True).indices[:, :count]
    return torch.ones_like(rows, dtype=torch.bool).scatter_(1, order, False)


def check_sparsity(sparsity: float) -> None:
    """Raise PruningError unless it is a share that leaves something to prune and something to keep."""
    if not 0 < sparsity < 1:
        raise PruningError("sparsity", sparsity, "a number between 0 and 1, both excluded", "0.5 removes half.")


def parse_pattern(text: str, sparsity: float, *, per_output: bool) -> Pattern:
    """ "unstructured" or "N:M" -> the rule. `sparsity` is read for "unstructured" only."""
    if text == "unstructured":
        return PerOutput(sparsity) if per_output else WholeMatrix(sparsity)
    kept, colon, of = text.partition(":")
    if not (colon and kept.isdigit() and of.isdigit()):
        raise PruningError("pattern", repr(text), "unstructured or N:M such as 2:4", "Name the kept number first.")
    return NM(int(kept), int(of))
