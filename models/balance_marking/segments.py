"""Messages longer than a segment: bits to segments and back, and how many tokens they need."""

from __future__ import annotations

from collections.abc import Sequence

from models.balance_marking.config import MarkingConfig, MarkingError


def segments_for(bits: int, config: MarkingConfig) -> int:
    """Segments that hold a message of `bits` bits, >= 1."""
    return max(1, -(-bits // config.message_bits))


def split_message(message: int, bits: int, config: MarkingConfig) -> tuple[int, ...]:
    """Most significant segment first, zeros in front. Raises MarkingError where `message` needs more than `bits`."""
    if bits < 1 or not 0 <= message < 1 << bits:
        told = f"{message} does not fit {bits} bits."
        raise MarkingError("message", told, "Give more bits, or a smaller message.")
    number, width = segments_for(bits, config), config.message_bits
    return tuple(message >> width * place & config.messages - 1 for place in reversed(range(number)))


def join_message(segments: Sequence[int], config: MarkingConfig) -> int:
    """The message whose segments these are."""
    message = 0
    for segment in segments:
        message = message << config.message_bits | segment
    return message


def check_length(segments: int, max_tokens: int, config: MarkingConfig) -> None:
    """Raises MarkingError with the arithmetic where `max_tokens` generated tokens cannot hold all segments in full."""
    needed = config.tokens_for(segments)
    if needed > max_tokens:
        sum_of = f"{config.window} + {segments} segments x {config.segment_tokens} = {needed} tokens"
        told = f"{segments * config.message_bits} bits need {sum_of}, but at most {max_tokens} are generated."
        raise MarkingError("message", told, "Generate more tokens, or send a shorter message.")
