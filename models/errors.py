"""What a pipeline raises when raw input cannot be used.

The serving layer turns it into the error envelope, the exporter into a refusal; models themselves know neither.
"""

from __future__ import annotations


class InputError(ValueError):
    """A caller's input is refused.

    code     stable word from the documented list of error codes
    message  one sentence: what came, what was expected
    field    path of the offending field, e.g. `series[0].values.OT[17]`, or None
    hint     what to do about it, or None
    """

    def __init__(self, code: str, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.hint = hint
