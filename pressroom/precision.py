"""The precisions an export can be told to press."""

from __future__ import annotations

from enum import StrEnum


class PrecisionChoice(StrEnum):
    """Of the graph's weights and arithmetic."""

    fp32 = "fp32"
    int8 = "int8"
