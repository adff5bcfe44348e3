"""Training data: columns in file order, the calendar's frequency, the papers' splits and their scaler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from export.errors import DataError, OptionError
from export.forecast_data import DataOptions, prepare
from export.scaling import fit_scaler, read_scaler, split_rows
from export.training_data import TrainingTable, read_table

ROOT = Path(__file__).parents[2]
ETTH1 = ROOT / "data" / "ett" / "ETTh1.csv"
BUNDLED = json.loads((ROOT / "data" / "checkpoints" / "itransformer_etth1_96_96.json").read_bytes())["data"]
HOURS = ["2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 03:00"]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """table(stamps, header=...) -> the csv of those stamps with one column counting up, read."""

    def make(stamps: list[str], header: str = "date,load", **options: Any) -> TrainingTable:
        rows = "\n".join(f"{stamp},{i}" for i, stamp in enumerate(stamps))
        (tmp_path / "t.csv").write_text(f"{header}\n{rows}\n")
        return read_table(tmp_path / "t.csv", **options)

    return make


def test_the_scaler_equals_the_training_runs_to_1e_9() -> None:
    etth1 = read_table(ETTH1)
    scaler, notes = fit_scaler(etth1, split_rows("ett-hourly", len(etth1.values)))
    np.testing.assert_allclose(scaler.mean, BUNDLED["scaler_mean"], rtol=1e-9)
    np.testing.assert_allclose(scaler.std, BUNDLED["scaler_std"], rtol=1e-9)
    assert list(etth1.columns) == BUNDLED["columns"]
    assert (str(etth1.frequency), notes) == ("h", [])


@pytest.mark.parametrize(
    ("text", "train", "test"),
    [
        ("ett-hourly", (0, 8640), (11520, 14400)),
        ("ett-minute", (0, 34560), (46080, 57600)),
        ("custom", (0, 41790), (47760, 59700)),
        ("10:500", (10, 500), None),
    ],
)
def test_splits_are_the_papers(text: str, train: tuple[int, int], test: tuple[int, int] | None) -> None:
    split = split_rows(text, 59700)
    assert (split.train, split.test) == (train, test)


@pytest.mark.parametrize("text", ["9:5", "0:9999", "ett-minute"])
def test_a_split_the_file_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="the file has 100"):
        split_rows(text, 100)


def test_an_unknown_split_is_misuse() -> None:
    with pytest.raises(OptionError, match="--split 'etth1' is not known"):
        split_rows("etth1", 100)


def test_a_constant_column_gets_scale_1_and_a_note(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("date,a,b\n" + "\n".join(f"{stamp},0.1,{i}" for i, stamp in enumerate(HOURS)))
    table = read_table(tmp_path / "t.csv")
    scaler, notes = fit_scaler(table, split_rows("0:4", 4))
    assert scaler.std[0] == 1.0
    assert scaler.std[1] == np.std([0, 1, 2, 3])
    assert notes == ["column a is constant in the training rows: its scale is 1"]


@pytest.mark.parametrize(
    ("stamps", "frequency"),
    [
        (HOURS, "h"),
        (["2020-01-01 00:00", "2020-01-01 00:15", "2020-01-01 00:30"], "15min"),
        (["2020-01-01", "2020-01-02", "2020-01-03"], "d"),
        (["2020-01-06", "2020-01-13", "2020-01-20"], "w"),
        (["2020-01-01", "2020-02-01", "2020-03-01", "2020-04-01"], "MS"),
        (["2020-01-01 00:00+02:00", "2020-01-01 01:00+02:00", "2020-01-01 02:00+02:00"], "h"),
    ],
)
def test_the_frequency_is_found_in_the_calendar(table: Any, stamps: list[str], frequency: str) -> None:
    assert str(table(stamps).frequency) == frequency


@pytest.mark.parametrize(
    ("stamps", "words"),
    [
        ([*HOURS[:3], "2020-01-01 05:00"], "line 5: the calendar is not regular: .* gap of 2"),
        ([*HOURS[:2], *HOURS[1:]], "line 4: .* repeats"),
        ([HOURS[0], HOURS[2], HOURS[1], HOURS[3]], "line 4: .* earlier"),
        ([HOURS[0], "yesterday", HOURS[2]], "line 3: 'yesterday' is not a date"),
        (HOURS[:2], "too few to tell a frequency"),
    ],
)
def test_an_irregular_calendar_is_refused_with_its_line(table: Any, stamps: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        table(stamps)


def test_a_stated_frequency_needs_no_detection(table: Any) -> None:
    assert str(table([*HOURS[:3], "2020-01-01 05:00"], freq="h").frequency) == "h"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a csv"),
        ("date,a\n", "holds no rows"),
        ("0.1,0.2\n0.3,0.4\n", "no header line"),
        (f"date,a\n{HOURS[0]},1\n{HOURS[1]},\n{HOURS[2]},3\n", "line 3, column a: an empty cell"),
        (f"date,a\n{HOURS[0]},1\n{HOURS[1]},x\n{HOURS[2]},3\n", "line 3, column a: 'x' is not a finite number"),
        (f"date,a\n{HOURS[0]},1\n{HOURS[1]},inf\n{HOURS[2]},3\n", "line 3, column a: 'inf'"),
    ],
)
def test_a_csv_with_a_hole_is_refused_where_it_is(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=words):
        read_table(tmp_path / "t.csv")


def test_columns_can_be_chosen_and_ordered() -> None:
    chosen = read_table(ETTH1, columns=("OT", "HUFL"))
    assert chosen.columns == ("OT", "HUFL")
    assert chosen.values[0].tolist() == [30.5310001373291, 5.827000141143799]


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="no column 'XX'") as refusal:
        read_table(ETTH1, columns=("XX",))
    assert "HUFL" in refusal.value.hint


@pytest.mark.parametrize(
    "document",
    [
        {"mean": [1.0, 2.0], "std": [3.0, 4.0], "columns": ["a", "b"]},
        {"mean": {"a": 1.0, "b": 2.0}, "std": {"b": 4.0, "a": 3.0}},
        {"scaler": {"mean": [1.0, 2.0], "std": [3.0, 4.0], "columns": ["a", "b"]}},
        {"data": {"scaler_mean": [1.0, 2.0], "scaler_std": [3.0, 4.0], "columns": ["a", "b"]}},
    ],
)
def test_given_numbers_are_a_scaler(tmp_path: Path, document: Any) -> None:
    (tmp_path / "s.json").write_text(json.dumps(document))
    given = read_scaler(tmp_path / "s.json")
    assert (given.scaler.mean.tolist(), given.scaler.std.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert given.columns == ("a", "b")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "holds no scaler"),
        ({"mean": [1.0], "std": [0.0]}, "std finite and positive"),
        ({"mean": [1.0], "std": [1.0, 2.0]}, "shape"),
        ({"mean": {"a": 1.0}, "std": {"b": 1.0}}, "different columns"),
        ({"mean": ["x"], "std": [1.0]}, "could not convert"),
        ({"mean": [1.0], "std": [1.0], "columns": ["a", "b"]}, "2 columns for 1 means"),
    ],
)
def test_numbers_that_are_no_scaler_are_refused(tmp_path: Path, document: Any, words: str) -> None:
    (tmp_path / "s.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=words):
        read_scaler(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no scaler and none was given"),
        ({"data": ETTH1}, "--data without --split"),
        ({"scaler": "none"}, "frequency is not known"),
        ({"scaler": "none", "freq": "fortnight"}, "--freq: frequency 'fortnight'"),
    ],
)
def test_options_that_leave_something_open_say_which_to_add(options: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        prepare(DataOptions(**options))


def test_a_scaler_for_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"mean": [1.0], "std": [1.0], "columns": ["a"]}))
    with pytest.raises(DataError, match="is for columns a, expected OT"):
        prepare(DataOptions(data=ETTH1, scaler=str(tmp_path / "s.json"), columns=("OT",)))
