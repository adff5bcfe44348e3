"""The gate in front of every route and call: keys and scopes, rate limits, and how many requests are in the house.

One gate serves HTTP and gRPC. Without a key file it is open, but only to callers on a loopback address: a server that
listens to the world needs keys, or `--insecure`.
"""

from __future__ import annotations

import ipaddress
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import monotonic

from services.core.auth import Key, KeyStore, Scope
from services.core.errors import ApiError
from services.core.settings import Settings

_DAY, _MINUTE = 86_400.0, 60.0


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "testserver")


@dataclass
class Window:
    """A fixed window of requests: `limit` of them in `seconds`."""

    limit: int
    seconds: float
    used: int = 0
    began: float = float("-inf")

    def wait(self, now: float) -> float | None:
        """None if another request fits, else the seconds until the window ends."""
        if now - self.began >= self.seconds:
            self.began, self.used = now, 0
        if self.used >= self.limit:
            return self.seconds - (now - self.began)
        return None

    def take(self, now: float) -> float | None:
        """Count one request; None if it fits, else the seconds until the window ends."""
        wait = self.wait(now)
        if wait is None:
            self.used += 1
        return wait

    def headers(self, now: float) -> dict[str, str]:
        """The standard rate-limit headers."""
        left = max(0.0, self.seconds - (now - self.began))
        return {
            "ratelimit-limit": str(self.limit),
            "ratelimit-remaining": str(self.limit - self.used),
            "ratelimit-reset": str(math.ceil(left)),
        }


@dataclass(frozen=True)
class Admission:
    """A request that was let in: whose key it had, and headers that tell a limited caller what is left."""

    key_id: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


_OPEN = Admission()


class Gate:
    """Admission for one worker process."""

    def __init__(self, settings: Settings) -> None:
        self._store = KeyStore(Path(settings.keys_file)) if settings.keys_file else None
        self._insecure = settings.insecure
        self._workers = settings.workers
        self._max_in_flight = settings.max_in_flight
        self._in_flight = 0
        self._places = _Places(self)
        self._windows: dict[str, tuple[Key, list[Window]]] = {}

    def admit(self, scope: Scope | None, secret: str | None, local_address: str) -> Admission:
        """Let a request in, or raise ApiError (unauthenticated, permission_denied, rate_limited).

        scope          what the route needs; None: open to everyone
        secret         the caller's key, if one was sent
        local_address  the server's own address as the caller reached it
        """
        if scope is None:
            return _OPEN
        if self._store is None:
            if scope == "admin":
                raise ApiError(
                    "permission_denied",
                    "changing what is served is off: this server has no keys",
                    hint="the operator sets PRESSROOM_KEYS_FILE with a key of scope admin",
                )
            if not self._insecure and not is_loopback(local_address):
                raise ApiError(
                    "unauthenticated",
                    "this server has no keys and answers on loopback addresses only",
                    hint="the operator sets PRESSROOM_KEYS_FILE, or PRESSROOM_INSECURE=true",
                )
            return _OPEN
        if secret is None:
            raise ApiError(
                "unauthenticated", "no API key was sent", hint="send `Authorization: Bearer KEY` or `X-API-Key: KEY`"
            )
        key = self._store.find(secret)
        if key is None:
            raise ApiError("unauthenticated", "the API key is not known", hint="ask the operator for a key")
        if scope not in key.scopes:
            raise ApiError(
                "permission_denied",
                f"this key does not have the scope {scope!r}",
                hint=f"it has: {', '.join(key.scopes)}",
            )
        return Admission(key.id, self._count(key))

    def inside(self) -> AbstractContextManager[None]:
        """Hold one of the places shared by all protocols. Raises ApiError (too_many_in_flight) if none is free."""
        return self._places

    def enter(self) -> None:
        """Take a place; `leave` gives it back."""
        if self._in_flight >= self._max_in_flight:
            raise ApiError(
                "too_many_in_flight",
                f"{self._in_flight} requests are being handled, the limit is {self._max_in_flight}",
                hint="retry shortly",
                retry_after_ms=100,
            )
        self._in_flight += 1

    def leave(self) -> None:
        self._in_flight -= 1

    def _count(self, key: Key) -> dict[str, str]:
        known = self._windows.get(key.id)
        if known is None or known[0] != key:  # a changed entry starts afresh
            known = self._windows[key.id] = (key, self._windows_of(key))
        now = monotonic()
        for window in known[1]:
            wait = window.wait(now)
            if wait is not None:
                raise ApiError(
                    "rate_limited",
                    f"key {key.id!r} has used its {window.limit} requests in {window.seconds:.0f} s",
                    hint=f"retry after {math.ceil(wait)} s",
                    retry_after_ms=math.ceil(wait * 1000),
                    headers=window.headers(now),
                )
        for window in known[1]:  # only now: a request that one of them refuses is counted by none
            window.take(now)
        return known[1][0].headers(now) if known[1] else {}

    def _windows_of(self, key: Key) -> list[Window]:
        limits = ((key.requests_per_minute, _MINUTE), (key.requests_per_day, _DAY))
        return [Window(max(1, limit // self._workers), seconds) for limit, seconds in limits if limit is not None]


class _Places(AbstractContextManager[None]):
    """`Gate.inside` without an object for every request."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.enter()

    def __exit__(self, *_: object) -> None:
        self._gate.leave()
