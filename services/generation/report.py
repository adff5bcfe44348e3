"""What one turn of the model's thread tells the event loop: one message a step, for all sequences."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.core.errors import ApiError
from services.generation.observer import Load
from services.generation.request import Piece
from services.generation.sequence import Sequence


@dataclass(slots=True)
class Report:
    """One turn.

    began        sequences whose prompt is done
    pieces       what came for whom; a sequence may have two (its first token and one more)
    failed       sequences that ended with an error
    cancelled    how many were dropped because nobody waits for them
    intervals    seconds since the same sequence's piece before; firsts: since its submission
    prompt_tokens  computed in this turn
    rows         sequences in the decoding step
    """

    began: list[Sequence] = field(default_factory=list)
    pieces: list[tuple[Sequence, Piece]] = field(default_factory=list)
    failed: list[tuple[Sequence, ApiError]] = field(default_factory=list)
    cancelled: int = 0
    intervals: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    rows: int = 0
    load: Load | None = None

    def is_empty(self) -> bool:
        """Nothing to tell."""
        return not (self.began or self.pieces or self.failed or self.cancelled or self.prompt_tokens)
