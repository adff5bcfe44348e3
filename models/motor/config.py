"""MOTOR's sizes in one shape for all three published layouts.

v0  femr 0.1.16 (JAX/Haiku; the public 143M model)      v1  femr 0.2.2, 0.2.3 (torch)
v2  femr >= 0.2.4: even layers are gated linear recurrences (Hawk), another head
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Layout = Literal["v0", "v1", "v2"]
Activation = Literal["gelu", "gelu_tanh", "swiglu"]
Ages = Literal["none", "overwrite", "append"]

_DEFAULTS = {
    "vocab_size": 32768,
    "is_hierarchical": False,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "n_heads": 12,
    "n_layers": 6,
    "attention_width": 496,
    "use_normed_ages": False,
    "use_bias": True,
    "hidden_act": "gelu",
}  # fields equal to these are left out of published files
LONGEST = 2**15  # positions a network with recurrent layers takes; attention alone forgets what is beyond its reach
_DENSE_REACH = 2048  # positions; their square is what one head's scores hold


class MotorConfigError(ValueError):
    """A configuration value is missing or cannot be used; the message names it and what was expected."""


@dataclass(frozen=True, kw_only=True)
class MotorConfig:
    """One MOTOR network.

    window        keys a position sees, itself included
    ages          time channels and (but for recurrent layers) their squares: none; in place of the last channels of
                  every layer's input; or appended to it
    time_channels how many the caller sends: age (v0, v1), or marker, age, log age, delta, log delta (v2)
    time_bins     bin starts in `unit`s, the first 0; the last bin is unbounded
    unit          seconds of one time unit: 1 (v1, v2) or 60 (v0: hazards per minute)
    tasks         codes the head was trained to predict
    """

    layout: Layout
    vocab_size: int
    hierarchical: bool
    hidden: int
    intermediate: int
    heads: int
    layers: int
    window: int
    ages: Ages
    time_channels: int
    bias: bool
    activation: Activation
    epsilon: float
    time_bins: tuple[float, ...]
    rank: int
    tasks: tuple[str, ...]
    unit: float = 1.0

    def __post_init__(self) -> None:
        if self.hidden % self.heads or (self.hidden // self.heads) % 2:
            raise MotorConfigError(f"n_heads: got {self.heads}, expected an even share of hidden_size = {self.hidden}")
        starts = self.time_bins
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise MotorConfigError("time_bins: expected rising numbers that begin with 0")

    @property
    def bins(self) -> int:
        """Number of time bins."""
        return len(self.time_bins)

    @property
    def reach(self) -> int:
        """Positions that can influence an answer: what lies before them may be cut off exactly. Unbounded for v2."""
        return 0 if self.layout == "v2" else self.layers * (self.window - 1) + 1

    @property
    def banded(self) -> bool:
        """Whether histories can be so long that attention is computed in bands; costs short ones a little."""
        return not 0 < self.reach <= _DENSE_REACH


def parse_femr(document: Mapping[str, Any], layout: Layout) -> MotorConfig:
    """`config.json` of femr 0.2 -> configuration (v1 or v2). Raises MotorConfigError naming the field."""
    sizes = {**_DEFAULTS, **_section(document, "transformer_config")}
    task = _section(_section(document, "task_config"), "task_kwargs")
    bins = tuple(float(edge) for edge in _list(task, "time_bins"))
    if len(bins) < 2 or not math.isinf(bins[-1]):
        raise MotorConfigError("time_bins: expected at least two numbers, the last one infinity")
    activation = str(sizes["hidden_act"])
    if activation not in ("gelu", "swiglu"):
        raise MotorConfigError(f'hidden_act: got "{activation}", expected gelu or swiglu')
    aged = bool(sizes["use_normed_ages"])
    return MotorConfig(
        layout=layout,
        vocab_size=_whole(sizes, "vocab_size"),
        hierarchical=bool(sizes["is_hierarchical"]),
        hidden=_whole(sizes, "hidden_size"),
        intermediate=_whole(sizes, "intermediate_size"),
        heads=_whole(sizes, "n_heads"),
        layers=_whole(sizes, "n_layers"),
        window=_whole(sizes, "attention_width"),
        ages="overwrite" if aged else "none",
        time_channels=(5 if layout == "v2" else 1) if aged else 0,
        bias=bool(sizes["use_bias"]),
        activation="swiglu" if activation == "swiglu" else "gelu",
        epsilon=1e-6,
        time_bins=bins[:-1],
        rank=_whole(task, "final_layer_size"),
        tasks=tuple(str(entry[0]) for entry in _list(task, "pretraining_task_info")),
    )


def parse_haiku(document: Mapping[str, Any]) -> MotorConfig:
    """`config.msgpack` of femr 0.1.16 -> configuration. Raises MotorConfigError naming the field."""
    sizes, task = _section(document, "transformer"), _section(document, "task")
    if sizes.get("rotary", "per_head") != "per_head":
        raise MotorConfigError(f'rotary: got {sizes["rotary"]!r}, expected "per_head"')
    aged = bool(sizes.get("with_age_beta", False))
    described = task.get("survival_dict", task)
    codes = described.get("codes") or [str(i) for i in range(_whole(task, "num_codes"))]
    return MotorConfig(
        layout="v0",
        vocab_size=_whole(sizes, "vocab_size"),
        hierarchical=bool(sizes.get("is_hierarchical", False)),
        hidden=_whole(sizes, "hidden_size"),
        intermediate=_whole(sizes, "intermediate_size"),
        heads=_whole(sizes, "n_heads"),
        layers=_whole(sizes, "n_layers"),
        window=_whole(sizes, "attention_width") + 1,
        ages="append" if aged else "none",
        time_channels=1 if aged else 0,
        bias=True,
        activation="gelu_tanh",
        epsilon=1e-5,
        time_bins=tuple(float(edge) for edge in _list(described, "time_bins")),
        rank=_whole(task, "dim") - 1,
        tasks=tuple(str(code) for code in codes),
        unit=60.0,
    )


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    if not isinstance(found, Mapping):
        raise MotorConfigError(f"{name}: expected an object")
    return found


def _list(found: Mapping[str, Any], name: str) -> list[Any]:
    value = found.get(name)
    if not isinstance(value, list):
        raise MotorConfigError(f"{name}: expected a list")
    return value


def _whole(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MotorConfigError(f"{name}: got {value!r}, expected a whole number >= 1")
    return value
