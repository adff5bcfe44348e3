"""Raw -> tensors -> raw, the same steps in the parity certificate and in the service.

history [L, C] raw float64 --scale--> x_enc [1, L, C] float32 --network--> forecast [1, H, C] --unscale--> raw
timestamps [L]             --marks--> x_mark_enc [1, L, M] float32
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.forecasting.calendar import calendar_marks
from models.forecasting.frequency import Stamps
from models.forecasting.spec import ForecastSpec

LARGEST = 1e15  # scaled values beyond this would overflow float32 inside a variance

Tensors = dict[str, npt.NDArray[np.float32]]


def to_tensors(history: npt.NDArray[np.floating], wall_clock: Stamps | None, spec: ForecastSpec, field: str) -> Tensors:
    """The network's inputs for raw windows.

    history     [B, L, C] raw units, finite
    wall_clock  int64 [B, L] local time as epoch seconds; None: no marks (their tensor then has width 0)
    returns     x_enc float32 [B, L, C]; x_mark_enc float32 [B, L, M or 0] if the network takes marks
    Raises InputError (value_out_of_range) if a scaled value exceeds 1e15 in magnitude.
    """
    scaled = spec.scaler.scale(history) if spec.scaler is not None else history.astype(np.float32)
    if np.abs(scaled).max() > LARGEST:
        raise InputError(
            "value_out_of_range",
            "a value is too large for the model's arithmetic",
            field=field,
            hint=f"values must stay within {LARGEST:.0e} training standard deviations",
        )
    tensors = {"x_enc": scaled}
    if spec.calendar is not None and spec.takes_marks:
        if wall_clock is None:
            tensors["x_mark_enc"] = np.zeros((*scaled.shape[:2], 0), dtype=np.float32)
        else:
            tensors["x_mark_enc"] = np.stack([calendar_marks(row, spec.calendar) for row in wall_clock])
    return tensors


def to_raw(forecast: npt.NDArray[np.float32], spec: ForecastSpec) -> npt.NDArray[np.float64]:
    """The network's output [B, H, C] in raw units, float64."""
    return spec.scaler.unscale(forecast) if spec.scaler is not None else forecast.astype(np.float64)
