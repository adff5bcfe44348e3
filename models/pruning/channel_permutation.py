"""Channel permutation: reorder inputs so that an N:M pattern costs less (Zhang et al., ICLR 2024, section 3.2).

In   score  float32 [R, C]   pattern N:M, C divisible by M, G = C / M groups
Out  order  int64 [C]        place p of the permuted layer holds original input order[p]
Two steps. The heuristic sorts channels by importance and deals them in a zigzag over the groups' M slots, so that
every group gets strong and weak ones. The refinement re-deals one slot at a time over the groups by a linear sum
assignment that maximises the score kept; M rounds a pass, one a slot. Masks are in ORIGINAL order: mask[:, order] is
N:M.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from models.pruning.errors import PruningError
from models.pruning.pattern import NM, PerOutput, WholeMatrix

IMPORTANCES = ("sum", "retained_degree_unstructured", "retained_degree_per_outneuron")


@dataclass(frozen=True, kw_only=True)
class Search:
    """How to look for an order.

    importance  what channels are sorted by: the column sum of the score, or what a trial unstructured mask of
                `sparsity` leaves of it (over the whole matrix, or per output)
    assignment  refine by linear sum assignment; cost grows with R * (C / M)^2
    passes      times every slot is dealt anew; once in the paper, a little more is kept with each
    blocks      assign within this many equal parts of the channels; more parts are faster and keep less
    """

    importance: str = "sum"
    assignment: bool = True
    passes: int = 1
    blocks: int = 1
    sparsity: float = 0.5

    def __post_init__(self) -> None:
        if self.importance not in IMPORTANCES:
            raise PruningError("importance", repr(self.importance), " or ".join(IMPORTANCES), "Name one of these.")
        if self.passes < 1:
            raise PruningError("passes", self.passes, "a whole number from 1", "The paper takes 1.")


def find_order(score: Tensor, pattern: NM, search: Search) -> Tensor:
    """int64 [C]. Raises PruningError where the channels cannot be dealt out evenly."""
    pattern.groups(score)
    order = zigzag(channel_order(score, search), pattern.of)
    if not search.assignment:
        return order
    groups = score.shape[1] // pattern.of
    if groups % search.blocks:
        remedy = "Choose a number of blocks that divides the number of groups."
        raise PruningError("blocks", search.blocks, f"a divisor of {groups} groups", remedy)
    for slot in [*range(pattern.of)] * search.passes:
        parts = order.chunk(search.blocks)
        order = torch.cat([part[redeal(score[:, part], pattern, slot)] for part in parts])
    return order


def channel_order(score: Tensor, search: Search) -> Tensor:
    """Channels by ascending importance, int64 [C]; the number of pruned weights only breaks ties."""
    if search.importance == "sum":
        return score.sum(dim=0).argsort(stable=True)
    whole = search.importance == "retained_degree_unstructured"
    keep = (WholeMatrix if whole else PerOutput)(search.sparsity).keep(score)
    by_count = (~keep).sum(dim=0).argsort(stable=True)
    retained = (score * keep).sum(dim=0)
    return by_count[retained[by_count].argsort(stable=True)]


def zigzag(ascending: Tensor, slots: int) -> Tensor:
    """Deal sorted channels into groups of `slots`, every second slot backwards.

    Channels 0..7, 4 slots: slices (0 1)(2 3)(4 5)(6 7); slots (0 1)(3 2)(4 5)(7 6); groups (0 3 4 7)(1 2 5 6).
    """
    count = len(ascending)
    edges = [int(count * slot / slots) for slot in range(slots + 1)]
    slices = [ascending[start:stop] for start, stop in pairwise(edges)]
    return torch.stack([part.flip(0) if slot % 2 else part for slot, part in enumerate(slices)], dim=1).flatten()


def redeal(score: Tensor, pattern: NM, slot: int) -> Tensor:
    """Best new order of one slot's channels over the groups, as an index into the current order, int64 [C].

    A group whose other members' k-th largest value is t (k = kept) gains relu(v - t) from a candidate of value v,
    row by row; what it holds without one is the same for all candidates and drops out of the assignment.
    """
    rows, count = score.shape
    dealt = score.reshape(rows, count // pattern.of, pattern.of)  # [R, G, M]
    others = dealt[:, :, [member for member in range(pattern.of) if member != slot]]
    bar = others.topk(pattern.kept, dim=-1).values[:, :, -1]  # [R, G]: t
    candidates = dealt[:, :, slot]  # [R, G]: v
    gain = torch.stack([(candidates - bar[:, group, None]).clamp_min(0).sum(dim=0) for group in range(bar.shape[1])])
    _, chosen = linear_sum_assignment(gain.numpy(), maximize=True)
    index = torch.arange(count).reshape(-1, pattern.of)
    index[:, slot] = index[torch.as_tensor(chosen), slot]
    return index.flatten()


def keep_in_order(score: Tensor, pattern: NM, order: Tensor) -> Tensor:
    """Mask in original order whose columns, taken in `order`, obey the pattern: bool [R, C]."""
    keep = torch.empty_like(score, dtype=torch.bool)
    keep[:, order] = pattern.keep(score[:, order])
    return keep


def retained(score: Tensor, keep: Tensor) -> float:
    """What a mask leaves of the score, summed in float64."""
    return float(score.masked_fill(~keep, 0.0).sum(dtype=torch.float64))
