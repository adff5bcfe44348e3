"""Where an answer's text ends: the first stop string, wherever the borders between tokens fall."""

from __future__ import annotations

from collections.abc import Sequence


class StopFinder:
    """Hands out text of which no part can still become the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """New text in, certain text out. Once `found`, the answer is over and nothing more is handed out."""
        if not self._stops or not text:
            return text
        text = self._held + text
        ends = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self.found, self._held = True, ""
            return text[: min(ends)]
        held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """What was held back, once the answer is known to end here."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
