"""Tokens of an event's values, as the three published layouts look them up.

v1  numeric bins and texts are shared by all codes; units are compared in lower case without blanks
v2  entries carry a `property`: the column whose values they speak of
v0  entries carry a `code_string`: an event with a value is the value's token and nothing else
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

Owner = Literal["", "property", "code_string"]


class Values:
    """A dictionary's numeric and text entries, by what they belong to."""

    def __init__(self, entries: Sequence[Mapping[str, Any]], owner: Owner) -> None:
        self.instead_of_code = owner == "code_string"
        self._owner = owner
        self._texts: dict[tuple[Hashable, str], int] = {}
        bins: defaultdict[Hashable, list[tuple[float, int]]] = defaultdict(list)
        for i, entry in enumerate(entries):
            of = entry.get(owner) if owner else None
            if entry.get("type") == "text":
                self._texts[of, str(entry["text_string"])] = i
            elif entry.get("type") == "numeric":
                bins[of].append((float(entry["val_start"]), i))
        self._starts = {of: [start for start, _ in sorted(found)[1:]] for of, found in bins.items()}
        self._bins = {of: [i for _, i in sorted(found)] for of, found in bins.items()}

    def tokens(self, code: str, number: float | None, text: str | None, unit: str | None) -> list[int]:
        """Tokens of one event's values."""
        if self._owner == "property":
            found = [
                self._number("numeric_value", number),
                self._text_or_number("text_value", text),
                self._text_or_number("unit", unit),
            ]
        elif self._owner == "code_string":
            found = [self._number(code, number) if number is not None else self._text(code, text)]
        else:
            plain = None if unit is None else unit.lower().replace(" ", "")
            found = [self._number(None, number), self._text(None, text), self._text(None, plain)]
        return [token for token in found if token is not None]

    def _number(self, of: Hashable, number: float | None) -> int | None:
        if number is None or of not in self._bins:
            return None
        return self._bins[of][bisect_right(self._starts[of], number)]

    def _text(self, of: Hashable, text: str | None) -> int | None:
        return None if text is None else self._texts.get((of, text))

    def _text_or_number(self, of: str, text: str | None) -> int | None:
        """v2 tries every column's bins first, if it has any."""
        if text is not None and of in self._bins:
            try:
                return self._number(of, float(text))
            except ValueError:
                pass
        return self._text(of, text)


def values_of(entries: Sequence[Mapping[str, Any]]) -> Values:
    """The lookup of a dictionary, its layout told from its value entries."""
    valued = [entry for entry in entries if entry.get("type") in ("text", "numeric")]
    for owner in ("property", "code_string"):
        if any(owner in entry for entry in valued):
            return Values(entries, owner)
    return Values(entries, "")
