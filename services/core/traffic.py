"""Which version answers a request that names none: canary shares, pins, and who is followed by a shadow.

    PRESSROOM_CANARY = "itransformer-etth1:2=0.1"    a tenth of the requests goes to version 2, the rest to the newest
                                                     other one
    PRESSROOM_SHADOW = "itransformer-etth1:2=0.5"    half of the answers are computed by version 2 too, and compared

The draw is made from the request id, so that a retry with the same id meets the same version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from services.core.settings import SettingsError


@dataclass(frozen=True)
class Share:
    """A version and its fraction of the requests, 0 to 1."""

    version: str
    fraction: float


def parse_shares(text: str, setting: str) -> dict[str, Share]:
    """Read `name:version=fraction, ...`. Raises SettingsError naming the setting and the entry."""
    shares: dict[str, Share] = {}
    for entry in filter(None, (e.strip() for e in text.split(","))):
        tag, _, fraction = entry.partition("=")
        name, _, version = tag.partition(":")
        try:
            value = float(fraction)
        except ValueError:
            value = -1.0
        if not (name and version and 0 <= value <= 1):
            raise SettingsError(f"{setting}: {entry!r} is not name:version=fraction with a fraction from 0 to 1")
        shares[name] = Share(version, value)
    return shares


def newest_first(versions: list[str]) -> list[str]:
    """Whole-number versions by value, others after them, the later loaded first."""
    ranked = sorted(enumerate(versions), key=lambda iv: (iv[1].isdigit(), int(iv[1]) if iv[1].isdigit() else iv[0]))
    return [version for _, version in reversed(ranked)]


class Traffic:
    """Shares per model name; changed by the administrator while running."""

    def __init__(self, canary: dict[str, Share], shadow: dict[str, Share]) -> None:
        self._canary = canary
        self._shadow = shadow

    def pick(self, name: str, versions: list[str], request_id: str) -> str:
        """The version for one request; `versions` are those loaded, at least one."""
        ranked = newest_first(versions)
        share = self._canary.get(name)
        if share is None or share.version not in versions or len(versions) == 1:
            return ranked[0]
        if _draw(request_id, "canary") < share.fraction:
            return share.version
        return next(version for version in ranked if version != share.version)

    def follower(self, name: str, version: str, request_id: str) -> str | None:
        """The version that should repeat this request in the shadow, or None."""
        share = self._shadow.get(name)
        if share is None or share.version == version or _draw(request_id, "shadow") >= share.fraction:
            return None
        return share.version

    def set_canary(self, name: str, version: str, fraction: float) -> None:
        self._canary[name] = Share(version, fraction)

    def set_shadow(self, name: str, version: str, fraction: float) -> None:
        self._shadow[name] = Share(version, fraction)

    def forget(self, name: str, version: str) -> None:
        """Drop the shares of an unloaded version."""
        for shares in (self._canary, self._shadow):
            if name in shares and shares[name].version == version:
                del shares[name]


def _draw(request_id: str, purpose: str) -> float:
    """A number in [0, 1) that depends on the request id alone; purposes draw independently.

    A checksum would not do: crc32 is linear, so two purposes would always draw alike, and numbered ids unevenly.
    """
    digest = hashlib.blake2b(f"{purpose}:{request_id}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48
