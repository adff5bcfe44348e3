"""What messages stand for: a table of numbers and the facts behind them, in SQLite or any database SQLAlchemy reaches.

Opt-in (`watermark_registry`). A number is drawn at random, so that it tells nothing by itself; the same facts get the
same number again, in every worker and replica that shares the database. Facts are a short label a caller chose, or what
made a text: model, version, artifact digest, pruning receipt's digest, time bucket. No texts, no prompts, no callers.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from services.core.errors import ApiError
from services.core.settings import SettingsError

ATTEMPTS = 64  # numbers drawn before a table counts as full
REMEMBERED = 4096  # entries kept in memory

_TABLE = sql.Table(
    "pressroom_watermark_messages",
    sql.MetaData(),
    sql.Column("bits", sql.Integer, primary_key=True),
    sql.Column("message", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("facts", sql.String(1000), nullable=False),
    sql.Column("created", sql.String(32), nullable=False),
    sql.UniqueConstraint("bits", "facts"),
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one message stands for; what does not apply is None.

    label    a caller's own short text; no personal data belongs in it
    model .. receipt_digest   what made the text; digests as "sha256:<hex>"
    bucket   the stretch of time it was made in, its beginning in ISO 8601, UTC
    """

    label: str | None = None
    model: str | None = None
    version: str | None = None
    digest: str | None = None
    receipt_digest: str | None = None
    bucket: str | None = None

    def dump(self) -> str:
        """One text for one set of facts."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class MessageRegistry:
    """Numbers of one database. May be used from several threads. Raises SettingsError if it cannot be opened."""

    def __init__(self, url: str) -> None:
        try:
            self._engine = sql.create_engine(url, pool_pre_ping=True, hide_parameters=True)
            _TABLE.metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as fault:
            raise SettingsError(f"watermark_registry cannot be opened: {type(fault).__name__}") from None
        self._numbers: dict[tuple[int, str], int] = {}
        self._lock = Lock()

    def number(self, facts: Facts, bits: int) -> int:
        """The message below 2^bits that stands for these facts; registered if it is new.

        Raises ApiError (model_not_ready) where the database does not answer or has no number left.
        """
        key = (bits, facts.dump())
        with self._lock:
            if (known := self._numbers.get(key)) is not None:
                return known
        number = int(self._asked(lambda: self._registered(*key)))
        with self._lock:
            if len(self._numbers) >= REMEMBERED:
                self._numbers.clear()
            self._numbers[key] = number
        return number

    def known(self, facts: Facts, bits: int) -> int | None:
        """The message that stands for these facts, None if they were never registered. Raises as `number`."""
        wanted = _of_facts(bits, facts.dump())
        found = self._asked(lambda: self._first(wanted))
        return None if found is None else int(found[0])

    def facts(self, message: int, bits: int) -> dict[str, Any] | None:
        """What a message stands for, with the time it was registered; None for an unknown one. Raises as `number`."""
        wanted = sql.select(_TABLE.c.facts, _TABLE.c.created).where(_TABLE.c.bits == bits, _TABLE.c.message == message)
        found = self._asked(lambda: self._first(wanted))
        if found is None:
            return None
        known = {name: value for name, value in json.loads(found[0]).items() if value is not None}
        return {**known, "registered": found[1]}

    def messages(self, bits: int) -> list[int]:
        """All registered numbers of this width. Raises as `number`."""
        wanted = sql.select(_TABLE.c.message).where(_TABLE.c.bits == bits)

        def read() -> list[int]:
            with self._engine.connect() as connection:
                return [int(row[0]) for row in connection.execute(wanted)]

        return list(self._asked(read))

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _registered(self, bits: int, facts: str) -> int:
        wanted = _of_facts(bits, facts)
        for _ in range(ATTEMPTS):
            if (found := self._first(wanted)) is not None:
                return int(found[0])
            number = secrets.randbelow(1 << bits)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            try:
                with self._engine.begin() as connection:
                    connection.execute(_TABLE.insert().values(bits=bits, message=number, facts=facts, created=now))
            except IntegrityError:  # the number is taken, or another worker registered the same facts
                continue
            return number
        raise ApiError("model_not_ready", f"the watermark registry has no number of {bits} bits left")

    def _first(self, wanted: sql.Select[Any]) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(wanted).first()

    @staticmethod
    def _asked(ask: Any) -> Any:
        try:
            return ask()
        except SQLAlchemyError:
            raise ApiError(
                "model_not_ready", "the watermark registry does not answer", hint="retry; the operator checks its log"
            ) from None


def _of_facts(bits: int, facts: str) -> sql.Select[Any]:
    return sql.select(_TABLE.c.message).where(_TABLE.c.bits == bits, _TABLE.c.facts == facts)
