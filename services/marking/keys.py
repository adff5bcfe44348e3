"""Secret keys of watermarks: which one marks, and which ones are looked for.

They lie in a TOML file (a mounted secret, say), and nowhere else: not in artifacts, answers, logs or metrics.

    current = "2026-11"

    [[keys]]
    id = "2026-11"
    secret = "<64 hex digits>"           # `pressroom text key 2026-11 --file FILE` draws one and writes it there

The current key marks; reading tries all of them, so a key that no longer marks stays in the file for as long as its
texts matter. The file is read again when it changes; one that cannot be read leaves the keys that were known in force.
"""

from __future__ import annotations

import hashlib
import logging
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import monotonic

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from models.balance_marking.hashing import MERSENNE
from services.core.settings import SettingsError

log = logging.getLogger("pressroom.watermark")

RELOAD_SECONDS = 1.0
_PURPOSE = b"pressroom watermark\0"


@dataclass(frozen=True, slots=True)
class MarkingKey:
    """A key by its public name. number: what the hashes take, 1 .. 2^61 - 2; never shown."""

    id: str
    number: int = field(repr=False)

    @classmethod
    def of(cls, key_id: str, secret: str) -> MarkingKey:
        """The key made of a secret."""
        digest = hashlib.sha256(_PURPOSE + secret.encode()).digest()
        return cls(key_id, int.from_bytes(digest[:16], "big") % (MERSENNE - 2) + 1)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    secret: SecretStr = Field(min_length=32, max_length=256)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    current: str
    keys: tuple[_Entry, ...] = Field(min_length=1, max_length=64)


@dataclass(frozen=True)
class Keys:
    """What a key file holds: the key that marks comes first."""

    current: MarkingKey
    others: tuple[MarkingKey, ...] = ()

    @property
    def all(self) -> tuple[MarkingKey, ...]:
        """Every key, the current one first."""
        return (self.current, *self.others)

    def find(self, key_id: str) -> MarkingKey | None:
        """The key of this name."""
        return next((key for key in self.all if key.id == key_id), None)


class KeyRing:
    """The keys in force. Raises SettingsError if the file cannot be used at start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._modified = self._stamp()
        self._keys = read_keys(path)
        self._checked = monotonic()

    @property
    def keys(self) -> Keys:
        """As the file says now."""
        with self._lock:
            if monotonic() - self._checked >= RELOAD_SECONDS:
                self._checked = monotonic()
                self._reload()
            return self._keys

    def _reload(self) -> None:
        try:
            modified = self._stamp()
            if modified != self._modified:
                self._keys, self._modified = read_keys(self._path), modified
                log.info("watermark key file read again: %d keys", len(self._keys.all))
        except SettingsError as fault:
            log.error("the changed watermark key file is not in force: %s", fault)

    def _stamp(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError:
            raise _refused(self._path, "cannot be read") from None
        return status.st_mtime_ns, status.st_size, status.st_ino


def read_keys(path: Path) -> Keys:
    """Raises SettingsError that names the file and the place, and no secret."""
    try:
        found = _File.model_validate(tomllib.loads(path.read_text()))
    except OSError:
        raise _refused(path, "cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise _refused(path, "is not TOML") from None
    except ValidationError as fault:
        first = fault.errors(include_input=False)[0]
        raise _refused(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    keys = {entry.id: MarkingKey.of(entry.id, entry.secret.get_secret_value()) for entry in found.keys}
    if len(keys) != len(found.keys):
        raise _refused(path, "names one id twice")
    if found.current not in keys:
        raise _refused(path, f"current: there is no key {found.current[:64]!r}")
    current = keys.pop(found.current)
    return Keys(current, tuple(keys.values()))


def _refused(path: Path, reason: str) -> SettingsError:
    return SettingsError(f"watermark_keys_file: {path.name} {reason}")
