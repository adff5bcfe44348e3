"""The forecast calls of both clients beside `forecast`: truths, and backtests."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ._backtest import Backtest, BacktestOptions, BacktestResult
from ._config import Retry, Timeout
from ._core import target
from ._exchange import Exchange, Target, Wire
from ._forecast_types import TruthResult
from ._history import Histories
from ._truth import TruthCall, truth_call

T = TypeVar("T")
Version = str | int | None


class ForecastMethods:
    """Of Client."""

    if TYPE_CHECKING:
        _wire: Wire

        def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    def send_truth(
        self,
        truth: Histories,
        *,
        request_id: str | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> TruthResult:
        """Tell what really happened, so that the server can check its intervals and adapt them.

        truth       histories as `forecast` takes them: of the horizon, or of its first rows, or single new rows.
                    Columns that are not known may be left out, single values be NaN
        request_id  of the forecast (`result.request_id`), whose series are meant by id or place; None: by id and
                    timestamps, and every kept forecast of the series that reached them is met

        Only forecasts that were asked for `levels` are kept. Sending a truth twice changes nothing.
        Raises InvalidRequest if nothing is kept under that id, NotSupported if the artifact has no intervals.
        """
        return self._run(self._wire.task(_truth(truth, model, version, request_id)), timeout, retries)

    def backtest(
        self,
        history: Histories,
        *,
        model: str,
        version: str | int | None = None,
        options: BacktestOptions | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> BacktestResult:
        """Forecast the past from rolling origins and compare it with what happened.

        history  one or several series as `forecast` takes them, long enough for look-back and horizon
        options  which origins, levels and scores: see BacktestOptions
        timeout  of every single request

        Raises what `forecast` raises, and UsageError for a series too short for one window.
        """
        asked = target(model, version)
        metadata = self._run(self._wire.metadata(asked), timeout, retries)
        test = Backtest(history, asked.name, asked.version, metadata, options or BacktestOptions())
        for part in [*test.parts(), None]:
            for truth in test.due(part):
                self._run(self._wire.task(truth), timeout, retries)
            if part is not None:
                test.take(part, self._run(self._wire.forecast(part.call), timeout, retries))
        return test.result()


class AsyncForecastMethods:
    """Of AsyncClient."""

    if TYPE_CHECKING:
        _wire: Wire

        async def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    async def send_truth(
        self,
        truth: Histories,
        *,
        request_id: str | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> TruthResult:
        """See Client.send_truth."""
        return await self._run(self._wire.task(_truth(truth, model, version, request_id)), timeout, retries)

    async def backtest(
        self,
        history: Histories,
        *,
        model: str,
        version: str | int | None = None,
        options: BacktestOptions | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> BacktestResult:
        """See Client.backtest."""
        asked = target(model, version)
        metadata = await self._run(self._wire.metadata(asked), timeout, retries)
        test = Backtest(history, asked.name, asked.version, metadata, options or BacktestOptions())
        for part in [*test.parts(), None]:
            for truth in test.due(part):
                await self._run(self._wire.task(truth), timeout, retries)
            if part is not None:
                test.take(part, await self._run(self._wire.forecast(part.call), timeout, retries))
        return test.result()


def _truth(truth: Histories, model: str | None, version: Version, request_id: str | None) -> TruthCall:
    asked = Target("") if model is None else target(model, version)
    chosen = asked.version if model is not None else None if version is None else str(version)
    return truth_call(truth, model=asked.name or None, version=chosen, request_id=request_id)
