"""What `predict_time_to_event` answers: plain frozen values that can draw themselves. Times are in days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UsageError
from ._types import Timings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class EventCounts:
    """What became of a patient's events; `received` is the sum of the others.

    used              read by the network
    dropped_future    after the prediction time
    dropped_same_day  at midnight of the prediction's day, under strict_same_day
    without_time      static
    duplicates        equal to another event
    unknown           nothing of them is in the model's dictionary
    repeated          all of it was already said on the same day
    truncated         too long ago to have an influence
    """

    received: int
    used: int
    dropped_future: int
    dropped_same_day: int
    without_time: int
    duplicates: int
    unknown: int
    repeated: int
    truncated: int


@dataclass(frozen=True, eq=False)
class Hazard:
    """A hazard that is constant in each bin. edges_days float64 [b + 1], 0 to infinity; per_day float64 [b]."""

    edges_days: np.ndarray
    per_day: np.ndarray

    def survival(self, days: np.ndarray | float) -> np.ndarray:
        """Probability that nothing has happened by these days, 0..1, in the shape of `days`."""
        asked = np.asarray(days, dtype=np.float64)[..., None]
        inside = np.clip(np.minimum(asked, self.edges_days[1:]) - self.edges_days[:-1], 0, None)
        return np.asarray(np.exp(-(inside * self.per_day).sum(axis=-1)))


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskPrediction:
    """One task's answer for one patient.

    source             "adapter" or "pretraining"; version, digest: of the adapter, else None
    outcome            what is predicted, in words
    horizons_days, survival, risk   float64 [T]; risk is 1 - survival
    median_days        when survival is one half; None: it never is
    calibration        what is known about the probabilities' calibration
    """

    task: str
    source: str
    version: str | None
    digest: str | None
    outcome: str
    horizons_days: np.ndarray
    survival: np.ndarray
    risk: np.ndarray
    hazard: Hazard
    median_days: float | None
    calibration: str

    def plot(self, ax: Axes | None = None, *, until_days: float | None = None) -> Axes:
        """The survival curve, horizons marked. Needs matplotlib.

        ax          where to draw; None: new axes
        until_days  where the curve ends; None: a fifth beyond the last horizon
        """
        from ._curves import plot_survival

        return plot_survival([(self.task, self)], ax, until_days)


@dataclass(frozen=True, kw_only=True, eq=False)
class PatientPrediction:
    """One patient's answer, as of `prediction_time`.

    id               as sent; of frames the subject_id as text
    age_days         at the prediction time; last_event_days: since the last event read
    events           what became of them
    truncation       "none" or "exact": what was cut off has no influence
    representation   float64 [D], or None if it was not asked for
    """

    id: str | None
    prediction_time: str
    age_days: float
    last_event_days: float
    events: EventCounts
    truncation: str
    tasks: tuple[TaskPrediction, ...]
    representation: np.ndarray | None

    def __getitem__(self, task: str) -> TaskPrediction:
        """By task name; KeyError if it was not asked for."""
        for one in self.tasks:
            if one.task == task:
                return one
        raise KeyError(f"no task {task!r}; this answer has {[one.task for one in self.tasks]}")

    def plot(self, ax: Axes | None = None, *, until_days: float | None = None) -> Axes:
        """Every task's survival curve, see TaskPrediction.plot. Needs matplotlib."""
        from ._curves import plot_survival

        return plot_survival([(one.task, one) for one in self.tasks], ax, until_days)


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeToEventResult:
    """The answer to one `predict_time_to_event` call: one PatientPrediction a patient.

    Iterate it, take `len`, index by position or by id; `single` and `plot` are for one patient.

    model, version, digest   what answered; digest "sha256:..." names the exact artifact
    backbone, dictionary     digests of what made the representations, and of the codes it knows
    batch_rows               patients that went through the network together
    """

    patients: tuple[PatientPrediction, ...]
    model: str
    version: str
    digest: str
    backbone: str
    dictionary: str
    request_id: str
    timings: Timings
    batch_rows: int | None

    def __iter__(self) -> Iterator[PatientPrediction]:
        return iter(self.patients)

    def __len__(self) -> int:
        return len(self.patients)

    def __getitem__(self, key: int | str) -> PatientPrediction:
        """By position (int) or id (str); IndexError or KeyError if there is none."""
        if isinstance(key, int):
            return self.patients[key]
        for patient in self.patients:
            if patient.id == key:
                return patient
        raise KeyError(f"no patient {key!r} among {len(self.patients)}")

    @property
    def single(self) -> PatientPrediction:
        """The only patient; UsageError if there are several."""
        if len(self.patients) != 1:
            raise UsageError(f"the answer holds {len(self.patients)} patients, expected one", hint="index the result")
        return self.patients[0]

    def plot(self, ax: Axes | None = None, *, until_days: float | None = None) -> Axes:
        """The only patient's curves, see TaskPrediction.plot. Needs matplotlib."""
        return self.single.plot(ax, until_days=until_days)

    def to_frame(self) -> pd.DataFrame:
        """One row a patient, task and horizon: id, task, horizon_days, risk, survival, median_days. Needs pandas."""
        from ._frames import pandas

        rows = [
            (patient.id, one.task, *values, one.median_days)
            for patient in self.patients
            for one in patient.tasks
            for values in zip(one.horizons_days, one.risk, one.survival, strict=True)
        ]
        names = ["id", "task", "horizon_days", "risk", "survival", "median_days"]
        frame: pd.DataFrame = pandas().DataFrame(rows, columns=names)
        return frame

    @property
    def frame(self) -> pd.DataFrame:
        """`to_frame()`."""
        return self.to_frame()


def parse_patient(raw: Mapping[str, Any]) -> PatientPrediction:
    """One of the answer's `patients`."""
    vector = raw.get("representation")
    return PatientPrediction(
        id=raw.get("id"),
        prediction_time=raw["prediction_time"],
        age_days=float(raw["age_days"]),
        last_event_days=float(raw["last_event_days"]),
        events=EventCounts(**{name: int(raw["events"][name]) for name in EventCounts.__dataclass_fields__}),
        truncation=raw["truncation"],
        tasks=tuple(_task(one) for one in raw["tasks"]),
        representation=None if vector is None else np.asarray(vector, dtype=np.float64),
    )


def _task(raw: Mapping[str, Any]) -> TaskPrediction:
    edges = [np.inf if edge is None else edge for edge in raw["hazard"]["edges_days"]]
    return TaskPrediction(
        task=raw["task"],
        source=raw["source"],
        version=raw["version"],
        digest=raw["digest"],
        outcome=raw["outcome"],
        horizons_days=np.asarray(raw["horizons_days"], dtype=np.float64),
        survival=np.asarray(raw["survival"], dtype=np.float64),
        risk=np.asarray(raw["risk"], dtype=np.float64),
        hazard=Hazard(np.asarray(edges, dtype=np.float64), np.asarray(raw["hazard"]["per_day"], dtype=np.float64)),
        median_days=None if raw["median_days"] is None else float(raw["median_days"]),
        calibration=raw["calibration"],
    )
