"""Texts read under every key: the verdict over all of them, and the answer as it is sent.

The keys share the declared level between them (Šidák), so that one of several keys is not found by trying many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.balance_marking.check import Evidence
from models.balance_marking.decoder import Reading, SegmentReading, Verdict
from models.balance_marking.significance import best_of
from models.errors import InputError
from services.generation.tokenizer import Tokenizer
from services.marking.keys import MarkingKey
from services.marking.payload import LARGEST_NUMBER
from services.marking.registry import MessageRegistry
from services.marking.scheme import LoadedScheme
from services.marking.token_marks import token_marks

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads texts with one scheme. threads: that share the counting; most_tokens: of one text."""

    scheme: LoadedScheme
    registry: MessageRegistry | None
    tokenizer: Tokenizer
    threads: int
    most_tokens: int

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text's tokens; special tokens that are written out in it are plain characters.

        Raises InputError where one is no text or too long.
        """
        found = []
        for i, text in enumerate(texts):
            place = f"texts[{i}]" if len(texts) > 1 else "text"
            try:
                ids = self.tokenizer.encode(text)
            except InputError as fault:
                raise InputError(fault.code, f"{place}: {fault.message}", field=place, hint=fault.hint) from None
            if len(ids) > self.most_tokens:
                told = f"{place}: got {len(ids)} tokens, at most {self.most_tokens} are read"
                hint = "send the passage in question, or cut the text into several"
                raise InputError("invalid_request", told, field=place, hint=hint)
            found.append(ids)
        return found

    def decode(
        self, ids: list[int], keys: Sequence[MarkingKey], bits: int, among: Sequence[int] | None, top: int,
        shown: str | None = None,
    ) -> Json:  # fmt: skip
        """What a text says, under the key that says most.

        bits   of the message
        shown  the text, where the answer shall tell what each token says
        """
        segments = self.scheme.scheme.segments(bits)
        readings = [
            self.scheme.decoder(key, len(keys), top=top, threads=self.threads).read(ids, segments=segments, among=among)
            for key in keys
        ]
        best = min(range(len(keys)), key=lambda at: readings[at].p_value)
        reading = readings[best]
        message = self._message(reading)
        marks: Json = {}
        if shown is not None:
            spans = self.tokenizer.encode_with_spans(shown)[1]
            marks["marks"] = token_marks(self.scheme, keys[best], reading.messages, ids, spans)
        return {
            "verdict": over_all([one.verdict for one in readings]),
            "p_value": best_of(reading.p_value, len(keys)),
            "level": self.scheme.scheme.level,
            "message": message if message is not None and message <= LARGEST_NUMBER else None,
            "bits": None if message is None else f"{message:0{bits}b}",
            "payload": self._payload(message, bits),
            "key_id": keys[best].id,
            "keys_tried": len(keys),
            "tokens": len(ids),
            "segments": [_segment(one) for one in reading.segments],
            **marks,
        }

    def verify(
        self, ids: list[int], keys: Sequence[MarkingKey], expected: Sequence[tuple[int, ...]], written: Sequence[Json]
    ) -> Json:
        """Whether a text carries any of some messages, each given by its segments."""
        lengths = {len(segments) for segments in expected}
        gathered = {
            length: [(Evidence.of(self.scheme.decoder(key, len(keys)), ids, length), key) for key in keys]
            for length in lengths
        }
        checks: list[Json] = []
        for segments, sent in zip(expected, written, strict=True):
            pairs = gathered[len(segments)]
            found = [(evidence.check(segments, among=len(expected)), key) for evidence, key in pairs]
            best, key = min(found, key=lambda pair: pair[0].p_value)
            checks.append(
                {
                    "expected": sent,
                    "verdict": over_all([one.verdict for one, _ in found]),
                    "p_value": best_of(best.p_value, len(keys)),
                    "count": best.count,
                    "scored_tokens": best.scored,
                    "unique_tokens": best.unique,
                    "power": best.power,
                    "key_id": key.id,
                }
            )
        return {
            "verdict": over_all([one["verdict"] for one in checks]),
            "p_value": min(one["p_value"] for one in checks),
            "level": self.scheme.scheme.level,
            "tokens": len(ids),
            "keys_tried": len(keys),
            "checks": checks,
        }

    def _message(self, reading: Reading) -> int | None:
        """The whole message, if every segment is certain or error correction makes up for those that are not."""
        if reading.verdict != "marked":
            return None
        doubtful = [at for at, one in enumerate(reading.segments) if one.verdict != "marked"]
        if doubtful and not self.scheme.scheme.parity:
            return None
        return self.scheme.scheme.decode(reading.messages, doubtful)

    def _payload(self, message: int | None, bits: int) -> Json | None:
        if message is None or self.registry is None:
            return None
        return self.registry.facts(message, bits)


def over_all(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict over several looks at a text, each at its share of the level."""
    if "marked" in verdicts:
        return "marked"
    return verdicts[0] if len(set(verdicts)) == 1 else "inconclusive"


def _segment(one: SegmentReading) -> Json:
    return {
        "message": one.message,
        "count": one.candidates[0].count if one.candidates else 0,
        "margin": one.margin,
        "scored_tokens": one.scored,
        "unique_tokens": one.unique,
        "p_value": one.p_value,
        "power": one.power,
        "verdict": one.verdict,
        "candidates": [{"message": found.message, "count": found.count} for found in one.candidates],
    }
