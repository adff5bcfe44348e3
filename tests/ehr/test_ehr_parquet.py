"""MEDS files: what is read, and what is refused before or after it is unpacked."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.errors import InputError
from services import ehr_parquet
from services.ehr_parquet import read_parquet

AT = datetime(2000, 1, 1)
STAMP = datetime(1999, 5, 5, 10)


def file_of(**columns: Any) -> bytes:
    good = {"subject_id": pa.array([2, 1]), "time": pa.array([STAMP, STAMP]), "code": ["B", "A"]}
    buffer = io.BytesIO()
    pq.write_table(pa.table({k: v for k, v in (good | columns).items() if v is not None}), buffer)
    return buffer.getvalue()


def events(raw: bytes, at: datetime = AT) -> list[list[Any]]:
    return [list(one.record(at, "p").events) for one in read_parquet(raw)]


def test_patients_come_in_ascending_order_with_their_rows_in_the_file_s() -> None:
    raw = file_of(subject_id=pa.array([9, 3, 9, 3]), time=pa.array([STAMP] * 4), code=["a", "b", "c", "d"])
    assert [one.id for one in read_parquet(raw)] == ["3", "9"]
    assert [[event.code for event in one] for one in events(raw)] == [["b", "d"], ["a", "c"]]


def test_static_rows_values_and_other_columns() -> None:
    raw = file_of(
        time=pa.array([None, STAMP]), numeric_value=pa.array([1.5, None], pa.float64()), text_value=["x", None],
        unit=[None, "mg"], table=["labs", "labs"],
    )  # fmt: skip
    ((event,), (static,)) = events(raw)
    assert static is None
    assert (event.code, event.numeric_value, event.text_value, event.unit) == ("A", None, None, "mg")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_resolution_is_read(unit: str) -> None:
    ((first,), _) = events(file_of(time=pa.array([STAMP, STAMP], pa.timestamp(unit))))
    assert first.time == STAMP


def test_zoned_times_need_a_zoned_prediction_time() -> None:
    raw = file_of(time=pa.array([STAMP, STAMP], pa.timestamp("us", "Europe/Berlin")))
    ((first,), _) = events(raw, AT.replace(tzinfo=UTC))
    assert first.time == STAMP  # the instant, in the prediction time's own clock
    with pytest.raises(InputError) as refused:
        events(raw)
    assert (refused.value.code, refused.value.field) == ("timestamps_invalid", "events_parquet.time")


def test_a_time_no_calendar_holds_is_named_by_row() -> None:
    raw = file_of(subject_id=pa.array([1, 1]), time=pa.array([1, 2**61], pa.timestamp("us")))
    with pytest.raises(InputError) as refused:
        read_parquet(raw)[0].record(AT, "patients[0]")
    assert (refused.value.code, refused.value.field) == ("timestamps_invalid", "patients[0].events[1].time")


def test_a_bad_row_is_named_by_patient_and_row() -> None:
    raw = file_of(subject_id=pa.array([1, 1]), numeric_value=pa.array([1.0, float("nan")]))
    with pytest.raises(InputError) as refused:
        read_parquet(raw)[0].record(AT, "patients[0]")
    assert (refused.value.code, refused.value.field) == ("value_not_finite", "patients[0].events[1].numeric_value")


@pytest.mark.parametrize(
    "columns",
    [
        {"code": None}, {"time": None}, {"subject_id": None}, {"subject_id": ["1", "2"]}, {"time": ["1999", "2000"]},
        {"time": pa.array([1, 2])}, {"code": pa.array([1, 2])}, {"unit": pa.array([1, 2])},
        {"numeric_value": ["1", ""]}, {"subject_id": pa.array([None, 1])},
        {"code": pa.array([b"A", b"B"])}, {"code": pa.array([b"\xff", b"B"]).view(pa.string())},
    ],
)  # fmt: skip
def test_other_layouts_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        events(file_of(**columns))
    assert (refused.value.code, refused.value.field) == ("parquet_invalid", "events_parquet")


@pytest.mark.parametrize("raw", [b"", b"PAR1", file_of()[:-10], file_of()[:60] + file_of()[70:], "not base64", 5, None])
def test_what_is_no_file_is_refused(raw: Any) -> None:
    with pytest.raises(InputError) as refused:
        read_parquet(raw)
    assert refused.value.code == "parquet_invalid"


def test_size_is_bounded_before_anything_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ehr_parquet, "MOST_ROWS", 1)
    with pytest.raises(InputError) as refused:
        read_parquet(file_of())
    assert refused.value.code == "too_many_rows"
    monkeypatch.setattr(ehr_parquet, "MOST_ROWS", 10)
    monkeypatch.setattr(ehr_parquet, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="unpacks to more"):
        read_parquet(file_of())
