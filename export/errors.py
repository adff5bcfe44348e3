"""What an export refuses, and what to do about it.

    ExportError
    ├── OptionError            an option's value means nothing: misuse rather than a finding
    ├── CheckpointFileError    the file is no usable state dict
    ├── HyperParameterError    sizes missing, contradicting each other or the tensors
    ├── DataError              the training csv, its columns, its calendar or the scaler's numbers
    ├── ConversionError        the network could not be turned into a graph
    ├── ParityError            a step of the way changed the numbers by more than the tolerance
    └── StoreError             the model store refused the artifact

Nothing is stored once one of these was raised. The command line prints `error: message` and `hint: ...`.
"""

from __future__ import annotations


class ExportError(Exception):
    """An export was refused. message: what came and what was expected; hint: the way out ("" if there is none)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OptionError(ExportError):
    """An option's value cannot be understood, or an option that goes with it is missing."""


class CheckpointFileError(ExportError):
    """The checkpoint is unreadable, unsafe, or holds something other than finite float tensors."""


class HyperParameterError(ExportError):
    """Hyper-parameters are missing, malformed, or contradict the checkpoint."""


class DataError(ExportError):
    """The training data or the scaler's statistics cannot be used."""


class ConversionError(ExportError):
    """The network could not be converted into the runtime's format."""


class ParityError(ExportError):
    """Official layout, exported weights and served pipeline do not agree within the tolerance."""


class StoreError(ExportError):
    """The model store holds something else under that tag, or cannot be written."""
