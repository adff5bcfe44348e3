"""Raw -> tensors -> raw, the same steps in the parity certificate and in the service.

history [L, C] raw float64 --scale--> x_enc [1, L, C] float32 --network--> forecast [1, H, C] --unscale--> raw
timestamps [L]             --marks--> x_mark_enc [1, L, M] float32; [1, L + H, M] where marks go ahead
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.forecasting.calendar import batch_marks
from models.forecasting.frequency import Stamps
from models.forecasting.spec import ForecastSpec

LARGEST = 1e15  # training standard deviations; beyond this a variance would overflow float32
SMALL = 8192  # values whose squares are summed in no time and in one thread

Tensors = dict[str, npt.NDArray[np.float32]]


def check_range(history: npt.NDArray[np.floating], spec: ForecastSpec, field: str) -> None:
    """Refuse raw histories [..., C] that are not finite, or too large for the network. Raises InputError."""
    largest = LARGEST * (1.0 if spec.scaler is None else spec.scaler.smallest_std)
    if history.size <= SMALL and np.vdot(history, history) <= (largest / 2) ** 2:
        return  # the sum of all squares bounds each of them
    if np.abs(history).max() <= largest:  # False for NaN, too
        return
    if not np.isfinite(history).all():
        place = [int(i) for i in np.argwhere(~np.isfinite(history))[0]]
        raise InputError(
            "value_not_finite",
            f"the value at {place} is not finite",
            field=f"{field}{place}",
            hint="fill or drop missing values before sending",
        )
    raise InputError(
        "value_out_of_range",
        "a value is too large for the model's arithmetic",
        field=field,
        hint=f"values must stay within {LARGEST:.0e} training standard deviations",
    )


def too_short(received: int, spec: ForecastSpec, field: str) -> InputError:
    """The refusal of a history that is shorter than the network reads."""
    reason = f" ({spec.look_back_reason})" if spec.look_back_reason else ""
    return InputError(
        "history_too_short",
        f"got {received} time steps, the model needs {spec.look_back}{reason}",
        field=field,
        hint=f"send at least the last {spec.look_back} rows",
    )


def with_horizon(wall_clock: Stamps, spec: ForecastSpec) -> Stamps:
    """Wall clocks [B, L] continued over the horizon at their frequency: int64 [B, L + H]."""
    ahead = np.stack([spec.frequency.after(int(last), spec.horizon) for last in wall_clock[:, -1]])
    return np.concatenate([wall_clock, ahead], axis=1)


def to_tensors(history: npt.NDArray[np.floating], wall_clock: Stamps | None, spec: ForecastSpec) -> Tensors:
    """The network's inputs for raw windows that passed `check_range`.

    history     [B, L, C] raw units
    wall_clock  int64 [B, L] local time as epoch seconds; None: no marks (their tensor then has width 0). Where marks go
                ahead: [B, L + H], or [B, L] and the horizon follows at the model's frequency
    returns     x_enc float32 [B, L, C]; x_mark_enc float32 [B, L or L + H, M or 0] if the network takes marks
    """
    scaled = spec.scaler.scale(history) if spec.scaler is not None else history.astype(np.float32)
    tensors = {"x_enc": scaled}
    if spec.calendar is not None and spec.takes_marks:
        if wall_clock is None:
            tensors["x_mark_enc"] = np.zeros((len(scaled), spec.mark_steps, 0), dtype=np.float32)
        else:
            if wall_clock.shape[1] < spec.mark_steps:
                wall_clock = with_horizon(wall_clock, spec)
            tensors["x_mark_enc"] = batch_marks(wall_clock, spec.calendar)
    return tensors


def to_raw(forecast: npt.NDArray[np.float32], spec: ForecastSpec) -> npt.NDArray[np.float64]:
    """The network's output [B, H, C] in raw units, float64."""
    return spec.scaler.unscale(forecast) if spec.scaler is not None else forecast.astype(np.float64)
