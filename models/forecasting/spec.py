"""What a forecaster's pipeline must know beside its weights; stored as `settings` in the artifact's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.forecasting.frequency import Frequency
from models.forecasting.scaler import Scaler


@dataclass(frozen=True, kw_only=True)
class ForecastSpec:
    """Shapes and units of one served forecaster.

    look_back    L, steps of history the network reads, >= 1
    horizon      H, steps it forecasts, >= 1
    columns      names in the order the network was trained with, or None if it takes any columns
    frequency    of the history and the forecast
    calendar     frequency whose calendar marks are fed to the network (its training run's, which need not be the
                 data's: official runs on 15-minute data use hourly marks), or None if it is fed none
    scaler       statistics of the training rows, or None if the network normalises every window by itself
    marks_ahead  whether the marks go on over the horizon; such a network makes no forecast without the calendar
    look_back_reason  why it reads so much, where that is not its training window; said when a history is too short
    """

    look_back: int
    horizon: int
    columns: tuple[str, ...] | None
    frequency: Frequency
    calendar: Frequency | None
    scaler: Scaler | None
    marks_ahead: bool = False
    look_back_reason: str | None = None

    def __post_init__(self) -> None:
        if self.look_back < 1 or self.horizon < 1:
            raise ValueError(f"look_back {self.look_back} and horizon {self.horizon} must both be at least 1")
        if self.columns is not None and len(set(self.columns)) != len(self.columns):
            raise ValueError("columns must have different names")
        if self.scaler is not None and (self.columns is None or len(self.scaler.mean) != len(self.columns)):
            raise ValueError("a scaler needs one mean and std for each named column")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> ForecastSpec:
        """Read the manifest's `settings`. Raises KeyError or ValueError if they are not a forecaster's."""
        columns, scaler = settings["columns"], settings["scaler"]
        return cls(
            look_back=settings["look_back"],
            horizon=settings["horizon"],
            columns=None if columns is None else tuple(columns),
            frequency=Frequency.parse(settings["frequency"]),
            calendar=None if settings["calendar"] is None else Frequency.parse(settings["calendar"]),
            scaler=None if scaler is None else Scaler.from_mapping(scaler),
            marks_ahead=settings.get("marks_ahead", False),
            look_back_reason=settings.get("look_back_reason"),
        )

    def settings(self) -> dict[str, Any]:
        """The manifest's `settings`; `from_settings` reads them back."""
        return {
            "look_back": self.look_back,
            "horizon": self.horizon,
            "columns": None if self.columns is None else list(self.columns),
            "frequency": str(self.frequency),
            "calendar": None if self.calendar is None else str(self.calendar),
            "scaler": None if self.scaler is None else self.scaler.to_mapping(),
            **({"marks_ahead": True} if self.marks_ahead else {}),
            **({"look_back_reason": self.look_back_reason} if self.look_back_reason else {}),
        }

    @property
    def takes_marks(self) -> bool:
        """Whether the network is fed calendar marks, and requests therefore need timestamps."""
        return self.marks_width > 0

    @property
    def mark_steps(self) -> int:
        """Steps that have calendar marks: the history's, and the horizon's where marks go ahead."""
        return self.look_back + (self.horizon if self.marks_ahead else 0)

    @property
    def marks_width(self) -> int:
        """M, the number of calendar marks the network is fed."""
        return 0 if self.calendar is None else len(self.calendar.marks)
