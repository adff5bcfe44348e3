"""What every forecasting network offers to the exporter: one frozen record a network, and the errors it may raise.

A network's folder (`models/itransformer`, `models/card`) builds one `Architecture`; `registry` finds it by name.
The record speaks the official program's language at the door (hyper-parameter names, tensor names, settings
directory) and ours behind it. Importing this module needs no torch.

Letters: B batch, L look-back, H horizon, N variates, M calendar marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

    from models.statedict import Translation


class ConfigError(ValueError):
    """A hyper-parameter cannot be used.

    field     official name, or "directory" for a settings directory
    value     what came; None = nothing came
    expected  what would have been accepted, in words
    remedy    what to do about it
    """

    def __init__(self, field: str, value: object, expected: str, remedy: str) -> None:
        got = "missing" if value is None else f"got {value!r}"
        super().__init__(f"{field}: {got}, expected {expected}. {remedy}")
        self.field = field
        self.value = value
        self.expected = expected
        self.remedy = remedy


class ForecasterConfig(Protocol):
    """The sizes every forecaster has, whatever the network."""

    @property
    def look_back(self) -> int:
        """Rows of history a window holds, exactly (L)."""

    @property
    def horizon(self) -> int:
        """Rows of forecast (H)."""

    @property
    def variates(self) -> int:
        """Columns the network was trained with (N)."""

    def official(self) -> dict[str, Any]:
        """Every hyper-parameter under its official name; parsing it again gives an equal configuration."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A paper's network and how its official checkpoints are read.

    takes_marks            forward(x_enc [B,L,N], x_mark_enc [B,L,M] | None), else forward(x_enc)
    reads_marks            whether this configuration of a network that can take marks reads them
    marks_ahead            x_mark_enc [B,L+H,M] goes on over the horizon, and there is no forecast without it
    look_back_reason       why a configuration reads more history than its training window; None: it does not
    scaler_reason          why a configuration cannot do without the training data's scaler; None: it can
    any_variates           weights depend neither on the number nor on the order of columns
    marker                 an official tensor name that no other architecture has
    parse_config           official hyper-parameters -> configuration; unknown names are ignored; raises ConfigError
    config_from_directory  official settings directory (or a path holding one) -> what it says; raises ConfigError
    config_from_tensors    state dict -> the hyper-parameters its shapes and buffers settle; raises CheckpointError
    build                  network in evaluation mode under our parameter names
    translate              official state dict -> Translation; raises CheckpointError
    restore                our state dict -> official names and shapes, for training recipes; None: not offered
    """

    name: str
    title: str
    venue: str
    paper_url: str
    official_repo: str
    official_commit: str
    licence: str
    takes_marks: bool
    any_variates: bool
    marker: str
    parse_config: Callable[[Mapping[str, Any]], ForecasterConfig]
    config_from_directory: Callable[[str], dict[str, Any]]
    config_from_tensors: Callable[[Mapping[str, Tensor]], dict[str, Any]]
    build: Callable[[Any], nn.Module]
    translate: Callable[[Mapping[str, Tensor], Any], Translation]
    restore: Callable[[Mapping[str, Tensor], Any], dict[str, Tensor]] | None = None
    reads_marks: Callable[[Any], bool] = lambda config: True
    marks_ahead: bool = False
    look_back_reason: Callable[[Any], str | None] = lambda config: None
    scaler_reason: Callable[[Any], str | None] = lambda config: None
