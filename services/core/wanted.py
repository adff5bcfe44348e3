"""What the setting `models` asks for: `name`, `name:version`, `name:all`; a version may be pinned to a digest."""

from __future__ import annotations

import re
from dataclasses import dataclass

ALL = "all"
_PIN = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One entry. version: None for the newest, ALL for every one; digest: None, or what the artifact's must be."""

    name: str
    version: str | None = None
    digest: str | None = None

    @property
    def tag(self) -> str:
        return f"{self.name}:{self.version}" if self.version else self.name


def parse_wanted(entry: str) -> Wanted:
    """`name[:version[@sha256:<64 hex>]]`. Raises ValueError."""
    tag, pinned, digest = entry.partition("@")
    name, _, version = tag.partition(":")
    if pinned and not _PIN.fullmatch(digest):
        raise ValueError(f"models: the digest of {tag[:60]!r} is {digest[:80]!r}, expected sha256: and 64 hex digits")
    if pinned and version in ("", ALL):
        raise ValueError(
            f"models: {tag[:60]!r} is pinned to a digest and names no version, expected name:version@sha256:..."
        )
    return Wanted(name, version or None, digest or None)
