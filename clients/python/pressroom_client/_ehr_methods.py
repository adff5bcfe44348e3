"""The health-record call of both clients: when may what happen to these patients, as of a moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ._config import Retry, Timeout
from ._core import target
from ._ehr_calls import Asked, EhrCall, ehr_call
from ._ehr_records import Moment, Moments
from ._ehr_types import TimeToEventResult
from ._exchange import Exchange, Wire

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

T = TypeVar("T")


def call_of(asked: Asked, model: str | None, version: str | int | None) -> EhrCall:
    """UsageError for a model name that cannot be one, or for events that cannot be sent."""
    if model is None:
        return ehr_call(asked, None, None if version is None else str(version))
    wanted = target(model, version)
    return ehr_call(asked, wanted.name, wanted.version)


class EhrMethods:
    """Of Client."""

    if TYPE_CHECKING:
        _wire: Wire

        def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    def predict_time_to_event(
        self,
        events: pd.DataFrame | pa.Table | Sequence[Mapping[str, Any]] | bytes | str | Path,
        prediction_time: Moments,
        *,
        tasks: Iterable[str] | None = None,
        horizons_days: Iterable[float] | None = None,
        births: Mapping[Any, Moment] | None = None,
        strict_same_day: bool = False,
        return_representation: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> TimeToEventResult:
        """Say when what may happen to patients, from their records up to a moment; nothing after it is read.

        events           a pandas frame or pyarrow table in MEDS layout (subject_id, time, code, and perhaps
                         numeric_value, text_value, unit), one patient a subject; the path or bytes of a MEDS parquet
                         file, sent as it is; or, for one patient, a list of {"time": ..., "code": ...}
        prediction_time  a date, datetime or ISO 8601 text; or a mapping subject -> one
        tasks            adapters ("death", "death:2") and pretraining codes; None: the model's adapters
        horizons_days    horizons of risk and survival, days; None: 365, 730, 1825
        births           subject -> birth, where no event MEDS_BIRTH says it
        strict_same_day  leave out events at midnight of the prediction's own day: dates may hide a later hour
        return_representation  the patients' vectors, too
        model            name, or "name:version"; None: the server's only model of this kind (HTTP; over gRPC, name it)

        Raises one error class per reason, which name events by their index and never quote them: see
        `pressroom_client.BadRequest` and its neighbours.
        """
        call = call_of(
            Asked(
                events=events,
                prediction_time=prediction_time,
                births=births,
                tasks=tasks,
                horizons_days=horizons_days,
                strict_same_day=strict_same_day,
                return_representation=return_representation,
            ),
            model,
            version,
        )
        return self._run(self._wire.task(call), timeout, retries)


class AsyncEhrMethods:
    """Of AsyncClient: the same, awaited."""

    if TYPE_CHECKING:
        _wire: Wire

        async def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    async def predict_time_to_event(
        self,
        events: pd.DataFrame | pa.Table | Sequence[Mapping[str, Any]] | bytes | str | Path,
        prediction_time: Moments,
        *,
        tasks: Iterable[str] | None = None,
        horizons_days: Iterable[float] | None = None,
        births: Mapping[Any, Moment] | None = None,
        strict_same_day: bool = False,
        return_representation: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> TimeToEventResult:
        """See Client.predict_time_to_event."""
        call = call_of(
            Asked(
                events=events,
                prediction_time=prediction_time,
                births=births,
                tasks=tasks,
                horizons_days=horizons_days,
                strict_same_day=strict_same_day,
                return_representation=return_representation,
            ),
            model,
            version,
        )
        return await self._run(self._wire.task(call), timeout, retries)
