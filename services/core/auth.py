"""API keys: who may call, for what, how often.

Keys lie hashed in a TOML file (a mounted secret, say); only their sha256 is ever on disk or in memory:

    [[keys]]
    id = "team-a"
    sha256 = "<64 hex digits>"           # `pressroom key team-a --scope infer` makes key and entry
    scopes = ["infer", "metrics"]         # infer | metrics | admin
    requests_per_minute = 600             # optional
    requests_per_day = 100000             # optional

A key is 32 random bytes, so one round of sha256 is enough: there is nothing to guess. The file is read again when it
changes; a file that cannot be read leaves the keys that were known in force. Limits hold per worker process, each of
which gets its share.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import tomllib
from pathlib import Path
from time import monotonic
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.core.settings import SettingsError

log = logging.getLogger("pressroom.auth")

Scope = Literal["infer", "metrics", "admin"]
RELOAD_SECONDS = 1.0


class Key(BaseModel):
    """One entry of the key file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    scopes: tuple[Scope, ...]
    requests_per_minute: int | None = Field(None, ge=1)
    requests_per_day: int | None = Field(None, ge=1)


class _KeyFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[Key, ...]


def hash_secret(secret: str) -> str:
    """What the file holds of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyStore:
    """The keys in force. Raises SettingsError if the file cannot be read at start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modified = self._stamp()
        self._keys = _read(path)
        self._checked = monotonic()

    def find(self, secret: str) -> Key | None:
        """The key with this secret; every entry is compared, each in constant time."""
        self._reload()
        digest, found = hash_secret(secret), None
        for key in self._keys:
            if hmac.compare_digest(digest, key.sha256):
                found = key
        return found

    def _reload(self) -> None:
        if monotonic() - self._checked < RELOAD_SECONDS:
            return
        self._checked = monotonic()
        try:
            modified = self._stamp()
            if modified != self._modified:
                self._keys, self._modified = _read(self._path), modified
                log.info("key file read again: %d keys", len(self._keys))
        except (OSError, SettingsError) as fault:
            log.error("the changed key file is not in force: %s", fault)

    def _stamp(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError:
            raise SettingsError(f"keys_file: {self._path.name} cannot be read") from None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> tuple[Key, ...]:
    try:
        keys = _KeyFile.model_validate(tomllib.loads(path.read_text())).keys
    except OSError:
        raise SettingsError(f"keys_file: {path.name} cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise SettingsError(f"keys_file: {path.name} is not TOML: {fault}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        raise SettingsError(f"keys_file: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if len({key.id for key in keys}) != len(keys):
        raise SettingsError(f"keys_file: {path.name} names one id twice")
    return keys
