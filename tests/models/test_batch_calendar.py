"""A batch's calendar marks are those of its rows, whatever their frequency, place and regularity."""

from __future__ import annotations

import numpy as np
import pytest

from models.forecasting.calendar import BLOCK, batch_marks, calendar_marks
from models.forecasting.frequency import Frequency

STARTS = (0, 3599, 1_467_331_200, -62_135_596_800 + 7, 4_102_444_800)


@pytest.mark.parametrize("text", ["s", "15min", "h", "3h", "d", "w", "MS"])
@pytest.mark.parametrize("length", [1, 96, BLOCK, BLOCK + 1])
def test_a_batch_has_the_marks_of_its_rows(text: str, length: int) -> None:
    frequency = Frequency.parse(text)
    stamps = np.stack([frequency.range(start, length) for start in STARTS])
    expected = np.stack([calendar_marks(row, frequency) for row in stamps])
    np.testing.assert_array_equal(batch_marks(stamps, frequency), expected)


def test_a_batch_with_one_irregular_row_has_them_too() -> None:
    hourly = Frequency.parse("h")
    stamps = np.stack([hourly.range(0, 96), hourly.range(1_467_331_200, 96)])
    stamps[1, 50:] += 1800
    assert not hourly.is_regular(stamps)
    expected = np.stack([calendar_marks(row, hourly) for row in stamps])
    np.testing.assert_array_equal(batch_marks(stamps, hourly), expected)


@pytest.mark.parametrize("change", [0, 1, -1])
@pytest.mark.parametrize("place", [0, 40, 95])
def test_one_series_is_regular_exactly_if_every_step_is(change: int, place: int) -> None:
    stamps = Frequency.parse("h").range(1_467_331_200, 96)
    stamps[place] += change
    for shape in ((96,), (1, 96)):
        assert Frequency.parse("h").is_regular(stamps.reshape(shape)) is (change == 0)
    assert not Frequency.parse("15min").is_regular(stamps)
