"""Settings as small values: how long to wait, how often to try again, how to connect.

All durations are seconds. Everything here is immutable, compares by value and prints as it is written.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any

from . import _constants as c
from ._errors import UsageError


@dataclass(frozen=True)
class Timeout:
    """How long to wait, in seconds (> 0); None: for ever.

    total     the whole call: every attempt and every pause between them. No attempt and no pause starts that could
              not end in time, each phase is cut to what is left, and the server is told.
    connect   opening a connection, TLS included
    read      the next bytes of the answer; over gRPC the whole attempt
    write     the next bytes of the request (HTTP only)
    pool      a free connection, when all are busy (HTTP only)
    """

    total: float | None = c.TOTAL_SECONDS
    connect: float | None = c.CONNECT_SECONDS
    read: float | None = c.READ_SECONDS
    write: float | None = c.WRITE_SECONDS
    pool: float | None = c.POOL_SECONDS

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and not value > 0:
                hint = "for no limit pass None, or Timeout.unlimited() for none at all"
                raise UsageError(f"timeout is {value!r}, expected seconds above 0", field=f"timeout.{name}", hint=hint)

    @classmethod
    def within(cls, seconds: float) -> Timeout:
        """The whole call within `seconds`, whatever part of it takes long. A connection is still given up after 5 s."""
        return cls(total=seconds, connect=min(seconds, c.CONNECT_SECONDS), read=seconds, write=seconds, pool=seconds)

    @classmethod
    def unlimited(cls) -> Timeout:
        """Wait for ever, everywhere."""
        return cls(None, None, None, None, None)

    @classmethod
    def of(cls, value: Timeout | float | None, default: Timeout) -> Timeout:
        """`value` as a Timeout: a number is `within` that many seconds, None is `default`."""
        if value is None:
            return default
        return value if isinstance(value, Timeout) else cls.within(value)

    def capped(self, seconds: float | None) -> Timeout:
        """Every limit at most `seconds`."""
        if seconds is None:
            return self
        values = (getattr(self, field.name) for field in fields(self))
        return Timeout(*(seconds if value is None else min(value, seconds) for value in values))


@dataclass(frozen=True)
class Retry:
    """When and how often to try again. Every call of this client may be repeated safely: none changes the server.

    Retried: connection errors and timeouts, HTTP 408, 429, 502, 503 and 504, gRPC UNAVAILABLE and RESOURCE_EXHAUSTED
    (except a payload that is too large), always within the total timeout.

    count              further attempts after the first, >= 0
    first_pause        seconds before the first of them; doubles each time
    longest_pause      seconds no pause exceeds
    jitter             0 to 1: each pause is shortened by a random share of itself, at most this much
    retry_after_limit  a server's Retry-After up to this many seconds is waited for, exactly; a longer one ends the
                       call at once, with the error's `.retry_after` set
    """

    count: int = c.RETRIES
    first_pause: float = c.FIRST_PAUSE_SECONDS
    longest_pause: float = c.LONGEST_PAUSE_SECONDS
    jitter: float = c.JITTER
    retry_after_limit: float = c.RETRY_AFTER_LIMIT_SECONDS

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value, most = getattr(self, name), 1 if name == "jitter" else None
            if not value >= 0 or (most is not None and value > most):
                expected = "between 0 and 1" if most else "0 or more"
                raise UsageError(f"retry setting is {value!r}, expected {expected}", field=f"retries.{name}")

    @classmethod
    def of(cls, value: Retry | int | None, default: Retry) -> Retry:
        """`value` as a Retry: a number replaces the default's count, None is the default."""
        if value is None:
            return default
        if isinstance(value, Retry):
            return value
        return cls(value, default.first_pause, default.longest_pause, default.jitter, default.retry_after_limit)


@dataclass(frozen=True, kw_only=True)
class HttpTransport:
    """How to speak HTTP.

    verify           True: the system's certificates; an SSLContext: your own; False: no check (tests only)
    proxy            address of a proxy; None: what the environment says, if `trust_env`
    trust_env        read HTTP_PROXY, NO_PROXY, SSL_CERT_FILE and their kin
    max_connections  open at the same time, >= 1; further calls wait for `Timeout.pool`
    """

    verify: bool | ssl.SSLContext = True
    proxy: str | None = None
    trust_env: bool = True
    max_connections: int = c.MAX_CONNECTIONS


@dataclass(frozen=True, kw_only=True)
class GrpcTransport:
    """How to speak gRPC. Needs `pip install "pressroom-client[grpc]"`.

    credentials        grpc.ChannelCredentials for grpcs://; None: the system's certificates
    max_message_bytes  largest request and answer, in bytes; None: no limit on this side
    options            further channel options of grpcio, as (name, value)
    """

    credentials: Any = None
    max_message_bytes: int | None = None
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Clock:
    """What the client knows of time and chance; tests bring their own.

    now          monotonic seconds
    wall         seconds since 1970, to read a Retry-After that is a date
    random       uniform in [0, 1)
    sleep        blocks for that many seconds (Client)
    async_sleep  awaits that many seconds (AsyncClient)
    """

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep
    async_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
