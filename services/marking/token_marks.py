"""What each token of a text says about the message that was read: the reading's count, told token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.balance_marking.decoder import first_of_each_pair, split_positions
from services.marking.keys import MarkingKey
from services.marking.scheme import LoadedScheme

Json = dict[str, Any]


def token_marks(
    scheme: LoadedScheme,
    key: MarkingKey,
    messages: Sequence[int | None],
    ids: Sequence[int],
    spans: Sequence[tuple[int, int]],
) -> list[Json]:
    """See `services.watermark_schema.TokenMark`.

    messages  the likeliest of every segment; None where no token votes
    spans     where each token stands in the text, characters
    """
    partition = scheme.scheme.partition(key.number, scheme.proxy)
    marks: list[Json] = [
        {"start": start, "end": end, "segment": None, "available": None, "counted": False} for start, end in spans
    ]
    for segment, positions in enumerate(split_positions(len(ids), partition.config, len(messages))):
        message, first = messages[segment], set(first_of_each_pair(ids, positions, partition.config))
        if message is None:
            continue
        for position in positions:
            before = ids[position - partition.config.window : position]
            [available] = partition.available(before, message, np.array([ids[position]]))
            marks[position] |= {"segment": segment, "available": bool(available), "counted": position in first}
    return marks
