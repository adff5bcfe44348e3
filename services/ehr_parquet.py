"""MEDS parquet inside a request: a file in, one patient a subject out, without a column more than is read.

A parquet file can be small and unpack to anything. Rows and bytes are bounded by the file's metadata before any is
read, and texts stay in dictionaries, so that a text repeated in every row is held once.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from models.errors import InputError
from models.motor import fields
from models.motor.record import Record
from models.motor.request import Raw
from models.motor.vocabulary import Event

FIELD = "events_parquet"
MOST_ROWS, MOST_BYTES = 2_000_000, 256 * 2**20
_NEEDED, _OPTIONAL = ("subject_id", "time", "code"), ("numeric_value", "text_value", "unit")
_TEXTS = ("code", "text_value", "unit")
_HINT = "a MEDS file: subject_id integer, time timestamp, code string; numeric_value, text_value, unit may be missing"
_EPOCH = datetime(1970, 1, 1)
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds; years 1 to 9999


def read_parquet(value: Any) -> list[Raw]:
    """Patients of a base64 parquet file, in ascending order of subject_id. Raises InputError."""
    table = _table(_decoded(value))
    if table["subject_id"].null_count:
        raise _invalid("subject_id must have no nulls")
    subjects = table["subject_id"].to_numpy()
    order = subjects.argsort(kind="stable")
    columns = _columns(table)
    raw, start = [], 0
    ends = [i + 1 for i in range(len(order)) if i + 1 == len(order) or subjects[order[i]] != subjects[order[i + 1]]]
    for end in ends:
        raw.append(Raw(str(subjects[order[start]]), None, columns.reader(order[start:end].tolist())))
        start = end
    return raw


class _Columns:
    """The columns as plain lists; rows become events when the prediction time is known."""

    def __init__(self, table: pa.Table) -> None:
        time = table["time"].combine_chunks()
        self._zoned = time.type.tz is not None
        self._times: list[int | None] = pc.cast(time, pa.int64()).to_pylist()
        self._numbers: Sequence[float | None] = _column(table, "numeric_value")
        self._texts = {name: _column(table, name) for name in _TEXTS}

    def reader(self, rows: list[int]) -> Any:
        """The record of one subject's rows, in the file's order."""

        def record(at: datetime, field: str) -> Record:
            if self._zoned != (at.tzinfo is not None):
                raise InputError(
                    "timestamps_invalid", "the file's times and the prediction time do not both have an offset",
                    field=f"{FIELD}.time", hint="give both an offset, or none",
                )  # fmt: skip
            return Record(
                events=[self._event(row, at, f"{field}.events[{i}]") for i, row in enumerate(rows)], birth=None
            )

        return record

    def _event(self, row: int, at: datetime, field: str) -> Event | None:
        micros = self._times[row]
        made = Event(
            at.replace(tzinfo=None) if micros is None else self._moment(micros, at, f"{field}.time"),
            fields.code(self._texts["code"][row], f"{field}.code"),
            fields.finite(self._numbers[row], f"{field}.numeric_value"),
            fields.text(self._texts["text_value"][row], f"{field}.text_value"),
            fields.text(self._texts["unit"][row], f"{field}.unit"),
        )
        return None if micros is None else made

    def _moment(self, micros: int, at: datetime, field: str) -> datetime:
        offset = at.utcoffset() or timedelta()
        if not _EARLIEST <= micros + offset // timedelta(microseconds=1) <= _LATEST:
            raise InputError("timestamps_invalid", "this time is not in the years 1 to 9999", field=field)
        return _EPOCH + timedelta(microseconds=micros) + offset


def _decoded(value: Any) -> bytes:
    """The file's bytes: a form brings them as they are, JSON in base64."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise _invalid("expected base64 of a parquet file")


def _table(raw: bytes) -> pa.Table:
    """The known columns, checked and cast. Raises InputError; pyarrow's own words may quote the data."""
    try:
        buffer = pa.BufferReader(raw)
        metadata, schema = pq.read_metadata(buffer), pq.read_schema(buffer)
        _check(metadata, schema)
        texts = [name for name in _TEXTS if name in schema.names]
        known = [name for name in (*_NEEDED, *_OPTIONAL) if name in schema.names]
        table = pq.ParquetFile(buffer, read_dictionary=texts).read(known)
        micros = pc.cast(table["time"], pa.timestamp("us", schema.field("time").type.tz), safe=False)
        return table.set_column(known.index("time"), "time", micros)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError):
        raise _invalid("this is no parquet file that can be read") from None


def _columns(table: pa.Table) -> _Columns:
    try:
        return _Columns(table)
    except (pa.ArrowException, ValueError):  # texts that are not UTF-8
        raise _invalid("this is no parquet file that can be read") from None


def _check(metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    rows = metadata.num_rows
    if rows > MOST_ROWS:
        raise InputError("too_many_rows", f"{rows} events came, the limit is {MOST_ROWS}", field=FIELD)
    if sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)) > MOST_BYTES:
        raise _invalid(f"the file unpacks to more than {MOST_BYTES} bytes")
    if missing := [name for name in _NEEDED if name not in schema.names]:
        raise _invalid(f"the file has no column {missing[0]}")
    kinds = {name: schema.field(name).type for name in (*_NEEDED, *_OPTIONAL) if name in schema.names}
    if not pa.types.is_integer(kinds["subject_id"]):
        raise _invalid("subject_id must be integers")
    if not pa.types.is_timestamp(kinds["time"]):
        raise _invalid("time must be timestamps")
    if wrong := [name for name in _TEXTS if name in kinds and not _is_text(kinds[name])]:
        raise _invalid(f"{wrong[0]} must be strings")
    if "numeric_value" in kinds and not _is_number(kinds["numeric_value"]):
        raise _invalid("numeric_value must be numbers")


def _invalid(message: str) -> InputError:
    return InputError("parquet_invalid", message, field=FIELD, hint=_HINT)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))


def _column(table: pa.Table, name: str) -> list[Any]:
    """A column as a list; texts of a dictionary are shared, not copied."""
    if name not in table.column_names:
        return [None] * len(table)
    column = table[name].combine_chunks()
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = column.dictionary.to_pylist()
    return [None if i is None else values[i] for i in column.indices.to_pylist()]
