"""What pruning refuses: a setting that means nothing, or a matrix the pattern does not fit."""

from __future__ import annotations


class PruningError(ValueError):
    """A pruning request cannot be carried out.

    field     setting, or the matrix by its name
    value     what came
    expected  what would have been accepted, in words
    remedy    what to do about it
    """

    def __init__(self, field: str, value: object, expected: str, remedy: str) -> None:
        super().__init__(f"{field}: got {value}, expected {expected}. {remedy}")
        self.field = field
        self.value = value
        self.expected = expected
        self.remedy = remedy
