"""What encoder and decoder must agree on, and the sizes that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_BITS = 20  # a segment's messages are all counted: 2^20 int32 counts are 4 MB
FELT = 0.6  # of delta, in a language model's text: what it is sure of, no mark moves (docs/watermark.md, "Verdicts")
ROUNDING = 1e-9  # 20 bits of 0.35 tokens are 7 tokens, whatever float arithmetic says


class MarkingError(ValueError):
    """A setting of the watermark means nothing, or a message does not fit.

    field    the setting
    message  what came and what is accepted
    hint     what to do about it
    """

    def __init__(self, field: str, message: str, hint: str) -> None:
        super().__init__(f"{field}: {message} {hint}")
        self.field = field
        self.message = message
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class MarkingConfig:
    """The paper's hyper-parameters; encoder and decoder need the same ones, `delta`, `top_k` and `reach`
    excepted.

    `reach` is ours. Where the likeliest tokens are unavailable, all that is unlikely and available would take their
    place: a mark that costs much quality. What is out of reach is held back with the unavailable ones instead.
    """

    vocabulary: int  # tokens that are split, of the proxy where it has a tokenizer of its own, >= 2
    key: int  # secret; enters every hash of the text before a position
    message_bits: int = 20  # of one segment, 1 .. 20
    tokens_per_bit: float = 10.0  # length of a segment in tokens, per bit, > 0
    delta: float = 1.5  # logit units by which unavailable tokens are held back, >= 0
    window: int = 10  # tokens before the first marked one; the most the proxy sees, >= hash_window
    hash_window: int = 1  # tokens before a position that enter its hash, >= 1
    permutations: int = 100  # of the vocabulary at each position, shared by all messages, 2 .. 65536
    top_k: int = 1000  # likeliest tokens that are marked; 0 = all
    reach: float = 0.0  # logits below the likeliest token within which available ones are spared, >= 0; 0 = all are

    def __post_init__(self) -> None:
        self._at_least("vocabulary", 2)
        self._at_least("message_bits", 1)
        self._at_least("hash_window", 1)
        self._at_least("window", self.hash_window)
        self._at_least("permutations", 2)
        self._at_least("top_k", 0)
        if self.message_bits > MOST_BITS:
            raise MarkingError("message_bits", f"got {self.message_bits}.", f"At most {MOST_BITS}: use more segments.")
        if self.permutations > 1 << 16:
            raise MarkingError("permutations", f"got {self.permutations}.", f"At most {1 << 16}.")
        if not math.isfinite(self.tokens_per_bit) or self.segment_tokens < 1:
            raise MarkingError("tokens_per_bit", f"got {self.tokens_per_bit}.", "A segment needs a token at least.")
        if not (math.isfinite(self.reach) and self.reach >= 0):
            raise MarkingError("reach", f"got {self.reach}.", "Give a finite number >= 0.")
        if not (math.isfinite(self.delta) and self.delta >= 0):
            raise MarkingError("delta", f"got {self.delta}.", "Give a finite number >= 0.")

    @property
    def messages(self) -> int:
        """Different messages of one segment."""
        return 1 << self.message_bits

    @property
    def lean(self) -> float:
        """Logit units by which available tokens may be expected to lead in a marked text."""
        return FELT * self.delta

    @property
    def segment_tokens(self) -> int:
        """Marked tokens of one segment: bits times tokens a bit, rounded down."""
        return math.floor(self.message_bits * self.tokens_per_bit + ROUNDING)

    def tokens_for(self, segments: int) -> int:
        """Generated tokens after which every segment has been embedded once in full."""
        return self.window + segments * self.segment_tokens

    def segment_of(self, position: int, segments: int) -> int:
        """Which segment the token at `position` (0 = first generated) carries; the message repeats after its end."""
        return (position - self.window) // self.segment_tokens % segments

    def _at_least(self, field: str, least: int) -> None:
        if getattr(self, field) < least:
            raise MarkingError(field, f"got {getattr(self, field)}.", f"At least {least}.")
