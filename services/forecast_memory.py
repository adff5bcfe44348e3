"""What a server remembers of its forecasts until their truths come: a small database its workers share.

Kept are forecasts whose request asked for intervals, never histories: the numbers that were answered and the scale of
their intervals. A forecast is forgotten when its last value has met its truth, at the latest after twice its horizon,
earlier when a model's share of memory is full (oldest first). Truths are compared and dropped at once; of them only
counts remain. The database lies in the directory this server's workers share, which is private to its user and
removed when the server ends; replicas of a server do not share it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MODEL_BYTES = 32 * 2**20  # of the kept forecasts of one model
SCORED_ROWS = 16_384  # comparisons coverage looks back on, per model, version and method
_FILE = "forecasts.sqlite3"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS issued (
    key INTEGER PRIMARY KEY, model TEXT, version TEXT, request TEXT, position INTEGER, series TEXT, last INTEGER,
    expires REAL, forecast BLOB, scale BLOB, radii BLOB, scored BLOB);
CREATE INDEX IF NOT EXISTS by_request ON issued (model, request);
CREATE INDEX IF NOT EXISTS by_series ON issued (model, series);
CREATE INDEX IF NOT EXISTS by_expiry ON issued (expires);
CREATE TABLE IF NOT EXISTS alphas (model TEXT, version TEXT, alpha BLOB, PRIMARY KEY (model, version));
CREATE TABLE IF NOT EXISTS compared (
    key INTEGER PRIMARY KEY, model TEXT, version TEXT, method TEXT, level INTEGER, covered INTEGER, total INTEGER);
CREATE INDEX IF NOT EXISTS by_method ON compared (model, version, method, level, key);
"""

Floats = npt.NDArray[np.floating]
Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Issued:
    """One series' forecast as it was answered.

    request   id of the request it belongs to, and the series' position in it
    series    the caller's name for the series, or None
    last      the history's last step on the series' own clock, epoch seconds; None without timestamps
    forecast  float32 [H, C], scale float32 [C]: of the split-conformal scores
    radii     float32 [len(aci.LEVELS), H, C] half-widths of adaptive intervals, NaN for levels not asked; or None
    scored    bool [H, C]: cells whose truth has come
    """

    version: str
    request: str
    position: int
    series: str | None
    last: int | None
    forecast: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    radii: npt.NDArray[np.float32] | None
    scored: Cells
    key: int = 0


class Memory:
    """The database; one connection a process, opened at first use."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._opened: sqlite3.Connection | None = None

    @property
    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            shared = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
            path = ":memory:" if shared is None else str(Path(shared) / _FILE)
            database = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # it need not outlive the server
            database.executescript(_SCHEMA)
            self._opened = database
        return self._opened

    def __enter__(self) -> Memory:
        """One change of several steps, seen by other workers as a whole."""
        self.lock.acquire()
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self._database.execute("COMMIT" if kind is None else "ROLLBACK")
        finally:
            self.lock.release()

    def keep(self, model: str, issued: Sequence[Issued], seconds: float) -> None:
        """Remember forecasts for that long; those of an earlier request with the same id are forgotten."""
        now = time.time()
        radii = 0 if issued[0].radii is None else issued[0].radii.nbytes
        most = max(MODEL_BYTES // (issued[0].forecast.nbytes + radii + 1024), 1)
        rows = [_row(model, one, now + seconds) for one in issued]
        with self:
            execute = self._database.execute
            execute("DELETE FROM issued WHERE expires < ?", (now,))
            execute("DELETE FROM issued WHERE model = ? AND request = ?", (model, issued[0].request))
            self._database.executemany(f"INSERT INTO issued VALUES (NULL{', ?' * 11})", rows)
            oldest = "SELECT key FROM issued WHERE model = ? ORDER BY key DESC LIMIT 1 OFFSET ?"
            execute(f"DELETE FROM issued WHERE model = ? AND key <= ({oldest})", (model, model, most))

    def of_request(self, model: str, request: str, shape: tuple[int, int]) -> list[Issued]:
        """The kept forecasts of one request, in its order."""
        return self._find("request = ? ORDER BY position", (model, time.time(), request), shape)

    def of_series(self, model: str, series: str, shape: tuple[int, int]) -> list[Issued]:
        """The kept forecasts of a series with timestamps, oldest first."""
        return self._find("series = ? AND last IS NOT NULL ORDER BY key", (model, time.time(), series), shape)

    def scored(self, one: Issued, cells: Cells) -> None:
        """Note that these cells have met their truth; a forecast without further ones is forgotten."""
        if cells.all():
            self._database.execute("DELETE FROM issued WHERE key = ?", (one.key,))
        else:
            self._database.execute(
                "UPDATE issued SET scored = ? WHERE key = ?", (np.packbits(cells).tobytes(), one.key)
            )

    def alpha(self, model: str, version: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64] | None:
        """The adaptive levels float64 `shape`, or None before the first truth."""
        with self.lock:
            found = self._database.execute(
                "SELECT alpha FROM alphas WHERE model = ? AND version = ?", (model, version)
            ).fetchone()
        return None if found is None else np.frombuffer(found[0], dtype=np.float64).reshape(shape).copy()

    def set_alpha(self, model: str, version: str, alpha: npt.NDArray[np.float64]) -> None:
        self._database.execute("INSERT OR REPLACE INTO alphas VALUES (?, ?, ?)", (model, version, alpha.tobytes()))

    def compared(self, model: str, version: str, method: str, counts: Sequence[tuple[int, int, int]]) -> None:
        """Note comparisons: level, how many truths were inside, how many there were."""
        rows = [(model, version, method, *count) for count in counts]
        self._database.executemany("INSERT INTO compared VALUES (NULL, ?, ?, ?, ?, ?, ?)", rows)
        where = "model = ? AND version = ? AND method = ? AND level = ?"
        oldest = f"SELECT key FROM compared WHERE {where} ORDER BY key DESC LIMIT 1 OFFSET ?"
        for level in {level for level, _, _ in counts}:
            place = (model, version, method, level)
            values = (*place, *place, SCORED_ROWS)
            self._database.execute(f"DELETE FROM compared WHERE {where} AND key <= ({oldest})", values)

    def coverage(self, model: str, version: str) -> dict[tuple[str, int], tuple[int, int]]:
        """Truths inside and in all, by method and level."""
        with self.lock:
            rows = self._database.execute(
                "SELECT method, level, SUM(covered), SUM(total) FROM compared WHERE model = ? AND version = ? "
                "GROUP BY method, level",
                (model, version),
            ).fetchall()
        return {(method, level): (covered, total) for method, level, covered, total in rows}

    def kept(self, model: str, version: str) -> int:
        """Forecasts that wait for their truth."""
        with self.lock:
            found = self._database.execute(
                "SELECT COUNT(*) FROM issued WHERE model = ? AND version = ? AND expires >= ?",
                (model, version, time.time()),
            ).fetchone()
        return int(found[0])

    def _find(self, where: str, values: tuple[object, ...], shape: tuple[int, int]) -> list[Issued]:
        columns = "key, version, request, position, series, last, forecast, scale, radii, scored"
        rows = self._database.execute(
            f"SELECT {columns} FROM issued WHERE model = ? AND expires >= ? AND {where}", values
        ).fetchall()
        return [_issued(row, shape) for row in rows]


def _row(model: str, one: Issued, expires: float) -> tuple[object, ...]:
    radii = None if one.radii is None else one.radii.tobytes()
    scored = np.packbits(one.scored).tobytes()
    place = (model, one.version, one.request, one.position, one.series, one.last, expires)
    return (*place, one.forecast.tobytes(), one.scale.tobytes(), radii, scored)


def _issued(row: Any, shape: tuple[int, int]) -> Issued:
    key, version, request, position, series, last, forecast, scale, radii, scored = row
    return Issued(
        key=key,
        version=version,
        request=request,
        position=position,
        series=series,
        last=last,
        forecast=np.frombuffer(forecast, np.float32).reshape(shape),
        scale=np.frombuffer(scale, np.float32),
        radii=None if radii is None else np.frombuffer(radii, np.float32).reshape(-1, *shape),
        scored=np.unpackbits(np.frombuffer(scored, np.uint8), count=shape[0] * shape[1]).astype(bool).reshape(shape),
    )
