"""Translating official state dicts: a table of expected tensors, and every disagreement with it in one error.

An architecture lists its `Slot`s: official name, our name, and for every axis the size together with the
hyper-parameter that asks for it, so that a refusal can say which one to look at. Tensors that no forward pass reads
(our name None) may be there or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

COUNTER = "num_batches_tracked"  # BatchNorm's, the one integer in official state dicts
LISTED = 8  # problems spelled out before "and n more"

Axis = tuple[int, str]  # size, the hyper-parameter (or rule) that asks for it; "" = always this size


class CheckpointError(ValueError):
    """A state dict is not the one its hyper-parameters describe.

    problems  one sentence per tensor: its name, its shape, the expected shape, the hyper-parameter to look at
    hint      what to do about it
    """

    def __init__(self, problems: list[str], hint: str) -> None:
        super().__init__("\n".join([*problems, f"hint: {hint}"]))
        self.problems = problems
        self.hint = hint


@dataclass(frozen=True)
class Translation:
    """An official state dict under our names.

    state    float32, complete for `load_state_dict(strict=True)`
    dropped  official names of tensors that no forward pass reads, sorted
    """

    state: dict[str, Tensor]
    dropped: list[str]


@dataclass(frozen=True)
class Slot:
    """One tensor of the official state dict. ours=None: known, never read, allowed to be absent.

    infinite  whether infinities are legal in it (a rate of 0 as a logarithm); NaN never is
    """

    official: str
    ours: str | None
    axes: tuple[Axis, ...]
    infinite: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Expected shape."""
        return tuple(size for size, _ in self.axes)


def linear(official: str, ours: str | None, out: Axis, inp: Axis) -> list[Slot]:
    """The two tensors of an affine map: weight [out, inp], bias [out]."""
    return [
        Slot(f"{official}.weight", ours and f"{ours}.weight", (out, inp)),
        Slot(f"{official}.bias", ours and f"{ours}.bias", (out,)),
    ]


def norm(official: str, ours: str, width: Axis) -> list[Slot]:
    """The two tensors of a LayerNorm."""
    return [Slot(f"{official}.{part}", f"{ours}.{part}", (width,)) for part in ("weight", "bias")]


def batch_norm(official: str, ours: str, width: Axis) -> list[Slot]:
    """The five tensors of a BatchNorm; in official programs it sits between two transpositions, hence the 1."""
    slots = norm(f"{official}.1", ours, width)
    slots += [Slot(f"{official}.1.{part}", f"{ours}.{part}", (width,)) for part in ("running_mean", "running_var")]
    return [*slots, Slot(f"{official}.1.{COUNTER}", None, ())]


def translate(state: Mapping[str, Tensor], slots: Iterable[Slot], hint: str) -> Translation:
    """Take every slot's tensor as float32 under our name; raise one CheckpointError naming all that disagrees."""
    table = {slot.official: slot for slot in slots}
    problems = [f"{name}: missing" for name, slot in table.items() if slot.ours and name not in state]
    problems += [f"{name}: unexpected, shape {list(state[name].shape)}" for name in state if name not in table]
    for name, tensor in state.items():
        if name in table:
            problems += _disagreements(table[name], tensor)
    if problems:
        raise CheckpointError(shorten(problems), hint)
    taken = {slot.ours: state[name].to(torch.float32) for name, slot in table.items() if slot.ours}
    return Translation(taken, sorted(name for name in state if table[name].ours is None))


def restore(
    state: Mapping[str, Tensor], slots: Iterable[Slot], unread: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The way back: our tensors under their official names and shapes, as the official program would save them.

    unread  tensors no forward pass reads, where zeros will not do; the official loader wants them all to be there
    """
    known = unread or {}
    found = {}
    for slot in slots:
        if slot.ours is not None:
            found[slot.official] = state[slot.ours].reshape(slot.shape).clone()
        elif slot.official in known:
            found[slot.official] = known[slot.official]
        else:
            counter = slot.official.endswith(COUNTER)
            found[slot.official] = torch.zeros(slot.shape, dtype=torch.int64 if counter else torch.float32)
    return found


def layer_count(state: Mapping[str, Tensor], stem: str) -> int:
    """How many numbered layers `<stem>.0.`, `<stem>.1.`, ... the state dict names (highest number + 1)."""
    pattern = re.compile(rf"{re.escape(stem)}\.(\d+)\.")
    return 1 + max((int(found[1]) for found in map(pattern.match, state) if found), default=-1)


def axis_of(state: Mapping[str, Tensor], name: str, axis: int) -> int:
    """The size of one axis of one tensor; raises CheckpointError where there is no such tensor or axis."""
    if name not in state:
        raise CheckpointError([f"{name}: missing"], "this is not a checkpoint of the architecture asked for")
    shape = state[name].shape
    if axis >= len(shape):
        raise CheckpointError([f"{name}: shape {list(shape)}, expected {axis + 1} axes or more"], "check the file")
    return int(shape[axis])


def shorten(problems: list[str]) -> list[str]:
    """The first few problems and the number of the others."""
    rest = len(problems) - LISTED
    return problems if rest <= 0 else [*problems[:LISTED], f"... and {rest} more"]


def _disagreements(slot: Slot, tensor: Tensor) -> list[str]:
    if tuple(tensor.shape) != slot.shape:
        return [
            f"{slot.official}: shape {list(tensor.shape)}, expected {list(slot.shape)}; check {_suspects(slot, tensor)}"
        ]
    if slot.ours is None:
        return []
    if not tensor.is_floating_point():
        return [f"{slot.official}: dtype {tensor.dtype}, expected float32"]
    if bool(torch.isnan(tensor).any()) or not (slot.infinite or bool(torch.isfinite(tensor).all())):
        return [f"{slot.official}: holds NaN or infinity; the training run diverged or the file is damaged"]
    return []


def _suspects(slot: Slot, tensor: Tensor) -> str:
    """The hyper-parameters behind the axes that disagree, or behind all where the number of axes differs."""
    same_rank = tensor.ndim == len(slot.axes)
    pairs = zip(slot.axes, tensor.shape, strict=True) if same_rank else ((axis, -1) for axis in slot.axes)
    named = dict.fromkeys(source for (size, source), found in pairs if size != found and source)
    return ", ".join(named) or "the architecture"
