"""Missing values and missing time steps, by a policy the caller names; without one both are refused.

    refuse   nothing is made up (the default)
    ffill    the last known value goes on
    linear   on the straight line between the known neighbours; what lies before or behind all of them is refused

Only the rows the network reads are filled, and what was filled is counted. Order, duplicates and frequency are never
repaired, and a window most of which would be made up is refused whatever the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.forecasting.frequency import Frequency, Stamps

REFUSE, FFILL, LINEAR = POLICIES = ("refuse", "ffill", "linear")
MOST = 0.5  # share of a window's values that may be made up

Values = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Filled:
    """What was made up in the rows the network reads.

    policy  one of POLICIES
    stamps  time steps that were not sent
    values  column -> values that were not known, those of missing time steps included; complete columns are left out
    """

    policy: str
    stamps: int = 0
    values: dict[str, int] = field(default_factory=dict)


def steps_of(instants: Stamps, frequency: Frequency) -> Steps | None:
    """Number of each stamp on the frequency's grid that begins at the first one.

    None unless all lie on the grid in ascending order: such stamps are refused as they are.
    """
    first, last = int(instants[0]), int(instants[-1])
    if (np.diff(instants) <= 0).any():
        return None
    if (seconds := frequency.seconds) is not None:
        steps, off = np.divmod(instants - first, seconds)
        return None if off.any() else np.asarray(steps, dtype=np.int64)
    grid = frequency.range(first, 2 + (last - first) // (28 * 86_400))  # no month is shorter
    steps = np.searchsorted(grid, instants)
    return np.asarray(steps, dtype=np.int64) if (grid[np.minimum(steps, len(grid) - 1)] == instants).all() else None


def last_steps(stamps: Stamps, last: int, length: int, frequency: Frequency) -> Stamps:
    """The grid's last `length` stamps; `last` is the number of the last of `stamps` on it."""
    if (seconds := frequency.seconds) is not None:
        return np.asarray(stamps[-1] - seconds * np.arange(length - 1, -1, -1), dtype=np.int64)
    return frequency.range(int(stamps[0]), last + 1)[-length:]


def fill(
    values: Values, steps: Steps, length: int, columns: tuple[str, ...], policy: str, place: str
) -> tuple[Values, Filled]:
    """The last `length` steps of [N, C] values, NaN where unknown, at ascending steps [N]: [length, C] without NaN.

    `steps` span at least `length`. Raises InputError naming the column that cannot be filled.
    """
    wanted = np.arange(steps[-1] - length + 1, steps[-1] + 1)
    sent = np.isin(wanted, steps)
    filled = np.empty((length, values.shape[1]))
    missing: dict[str, int] = {}
    for index, name in enumerate(columns):
        known = np.isfinite(values[:, index])
        at = steps[known]
        if count := int(length - np.isin(wanted, at).sum()):
            missing[name] = count
        _check_reach(at, wanted, count, policy, f"{place}.{name}")
        filled[:, index] = _at(wanted, at, values[known, index], policy)
    return filled, Filled(policy, int(length - sent.sum()), missing)


def _at(wanted: Steps, known: Steps, values: Values, policy: str) -> Values:
    if policy == LINEAR:
        return np.asarray(np.interp(wanted, known, values))
    return np.asarray(values[np.searchsorted(known, wanted, side="right") - 1])


def _check_reach(known: Steps, wanted: Steps, missing: int, policy: str, place: str) -> None:
    """Refuse a column with too little known, or with nothing known where the policy needs it."""
    if missing > MOST * len(wanted):
        message = f"{missing} of the {len(wanted)} values the model reads are missing"
        hint = f"at most {round(100 * MOST)} % of a column may be filled; send a fuller history"
        raise InputError("value_not_finite", message, field=place, hint=hint)
    if known[0] > wanted[0]:
        message = f"the first {int(known[0] - wanted[0])} values the model reads are missing, and none before them came"
        raise InputError("value_not_finite", message, field=place, hint="send earlier rows")
    if policy == LINEAR and known[-1] < wanted[-1]:
        message = f"the last {int(wanted[-1] - known[-1])} values are missing: there is no later one to draw a line to"
        raise InputError("value_not_finite", message, field=place, hint="use ffill, or end the series earlier")
