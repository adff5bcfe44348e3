"""PatchTST's hyper-parameters under the official names (the supervised program)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.forecasting.architecture import ConfigError
from models.forecasting.hyperparameters import choice, positive_int, switch
from models.forecasting.sizes import ForecasterSizes, check_heads


@dataclass(frozen=True, kw_only=True)
class PatchTSTConfig(ForecasterSizes):
    """Sizes and options of one PatchTST. Dropouts have no effect on a forecast and are not kept."""

    d_model: int
    n_heads: int
    e_layers: int
    d_ff: int
    patch_len: int = 16
    stride: int = 8
    padding_patch: str = "end"  # "end": the window is continued by one stride; else: not
    revin: bool = True  # normalise every window and undo it on the way out
    affine: bool = False  # learned scale and shift of the normalised window
    subtract_last: bool = False  # subtract the last value instead of the mean
    individual: bool = False  # an output map of its own for every variate
    decomposition: bool = False  # one network for the trend, one for the remainder
    kernel_size: int = 25  # steps of the moving average that makes the trend

    def __post_init__(self) -> None:
        check_heads(self.n_heads, self.d_model)
        if self.patch_len > self.seq_len:
            remedy = "Not one patch fits into the window."
            raise ConfigError("patch_len", self.patch_len, f"at most seq_len = {self.seq_len}", remedy)

    @property
    def head_dim(self) -> int:
        """Width of one head, rounded down as in the official program."""
        return self.d_model // self.n_heads

    @property
    def patches(self) -> int:
        """Patches of one window."""
        return (self.seq_len - self.patch_len) // self.stride + 1 + (self.padding_patch == "end")


def parse_config(official: Mapping[str, Any]) -> PatchTSTConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    sizes: dict[str, Any] = {
        name: positive_int(official, name)
        for name in ("seq_len", "pred_len", "enc_in", "d_model", "n_heads", "e_layers", "d_ff")
    }
    counts: dict[str, Any] = {
        name: positive_int(official, name, default=getattr(PatchTSTConfig, name))
        for name in ("patch_len", "stride", "kernel_size")
    }
    switches = ("revin", "affine", "subtract_last", "individual", "decomposition")
    return PatchTSTConfig(
        **sizes,
        **counts,
        **{name: switch(official, name, default=getattr(PatchTSTConfig, name)) for name in switches},
        padding_patch=choice(
            official, "padding_patch", ("end", "None", "none"), default="end", remedy='The official script says "end".'
        ),
    )
