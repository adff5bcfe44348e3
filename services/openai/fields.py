"""Reading a request object field by field: every refusal names the field, what came, what was expected, what to do.

A field that is null counts as not sent, as the official client's optional arguments do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from models.errors import InputError

Json = dict[str, Any]
_SHOWN = 60  # characters of a value that a refusal quotes


def refuse(field: str, came: Any, expected: str, hint: str | None = None) -> InputError:
    """A refusal of a value, to raise."""
    return InputError("invalid_request", f"{field}: got {shown(came)}, expected {expected}", field=field, hint=hint)


def shown(value: Any) -> str:
    """A value as a refusal quotes it: short, and only the kind of what has parts."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = {True: "true", False: "false", None: "null"}[value] if isinstance(value, bool | None) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


class Fields:
    """One JSON object. What nobody read is refused by `finish`.

    path  where the object is inside the request, "" for the request itself
    """

    def __init__(self, document: Json, path: str = "") -> None:
        self._document = document
        self._path = path
        self._known: dict[str, None] = {}

    def place(self, name: str) -> str:
        """The full name of a field."""
        return f"{self._path}.{name}" if self._path else name

    def raw(self, name: str) -> Any:
        """Whatever was sent, None if nothing was."""
        self._known[name] = None
        return self._document.get(name)

    def ignore(self, *names: str) -> None:
        """Fields that are accepted and have no effect."""
        self._known |= dict.fromkeys(names)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise refuse(self.place(name), value, "true or false")
        return value

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise refuse(self.place(name), value, "a string")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number from least to most."""
        value = self.raw(name)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            raise refuse(self.place(name), value, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float, least: float, most: float, *, beyond: bool = False) -> float:
        """A number from least to most; with `beyond`, above least."""
        value = self.raw(name)
        if value is None:
            return default
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not is_number or not (least < value <= most if beyond else least <= value <= most):
            bounds = f"above {least:g} and up to {most:g}" if beyond else f"from {least:g} to {most:g}"
            raise refuse(self.place(name), value, f"a number {bounds}")
        return float(value)

    def object(self, name: str) -> Json | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise refuse(self.place(name), value, "an object")
        return value

    def finish(self, more: Iterable[str] = ()) -> None:
        """Refuse the first field nobody asked for.

        more  further names to tell the caller of
        """
        unknown = next((name for name in self._document if name not in self._known), None)
        if unknown is not None:
            place = self.place(unknown[:_SHOWN])
            known = ", ".join([*self._known, *more])
            raise InputError("invalid_request", f"unknown field {place!r}", field=place, hint=f"known: {known}")
