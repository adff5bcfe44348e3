"""The request's `watermark` object: which message is woven into a text, under which key, how strongly.

{"message": 613}                        a whole number below 2^53; `message_bits` if it is longer than one segment
{"bits": "010110..."}                   the same bit by bit, the most significant first
{"label": "press release"}              a short text, which the registry keeps under a number
and with any of them: key_id, delta
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.balance_marking.scheme import LARGEST_DELTA
from models.errors import InputError
from services.openai.fields import Fields, refuse

MOST_BITS = 400
LARGEST_NUMBER = 2**53 - 1  # what every JSON reader keeps exactly; longer messages travel as bits
MOST_CHARACTERS = 64
_WAYS = ("message", "bits", "label")


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What a request wants embedded. Either `message` (below 2^bits), or a `label` for the registry.

    bits    None: one segment
    key_id  None: the current key
    delta   None: the scheme's
    """

    message: int | None = None
    label: str | None = None
    bits: int | None = None
    key_id: str | None = None
    delta: float | None = None


def read_payload(sent: Any, path: str = "watermark") -> Payload:
    """Raises InputError naming the field."""
    if not isinstance(sent, dict):
        raise refuse(path, sent, "an object with one of message, bits, label", 'for example {"message": 613}')
    fields = Fields(sent, path)
    given = [way for way in _WAYS if fields.raw(way) is not None]
    if len(given) != 1:
        told = "none of them" if not given else " and ".join(given)
        hint = 'for example {"message": 613}'
        raise InputError(
            "invalid_request", f"{path}: got {told}, expected one of message, bits, label", field=path, hint=hint
        )
    delta = fields.number("delta", -1.0, 0.0, LARGEST_DELTA, beyond=True)
    payload = Payload(
        **_message(fields),
        key_id=read_key_id(fields),
        delta=None if fields.raw("delta") is None else delta,
    )
    fields.finish()
    return payload


def read_key_id(fields: Fields) -> str | None:
    """The field `key_id`."""
    key_id = fields.text("key_id")
    if key_id == "":
        raise refuse(fields.place("key_id"), key_id, "the id of a key")
    return key_id


def read_bits(fields: Fields) -> int | None:
    """The field `message_bits`."""
    return fields.whole("message_bits", 1, MOST_BITS)


def read_label(label: Any, place: str) -> str:
    """A short text. Raises InputError."""
    if not isinstance(label, str) or not 1 <= len(label) <= MOST_CHARACTERS or not label.isprintable():
        raise refuse(place, label, f"1 to {MOST_CHARACTERS} printable characters")
    return label


def _message(fields: Fields) -> dict[str, Any]:
    if (label := fields.raw("label")) is not None:
        return {"label": read_label(label, fields.place("label"))}
    if (written := fields.text("bits")) is not None:
        if not 1 <= len(written) <= MOST_BITS or not set(written) <= {"0", "1"}:
            raise refuse(fields.place("bits"), written, f"1 to {MOST_BITS} characters 0 and 1")
        return {"message": int(written, 2), "bits": len(written)}
    bits = read_bits(fields)
    return {"message": fields.whole("message", 0, LARGEST_NUMBER), "bits": bits}
