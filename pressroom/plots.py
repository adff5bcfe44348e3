"""Pictures of forecasts and backtests, and what other pictures are made of; matplotlib is optional."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from pressroom_client import BacktestResult, Forecast

MOST_COLUMNS = 8  # drawn one above the other
_SHADES = (0.12, 0.22, 0.32)


def draw_forecast(history: pd.DataFrame, forecast: Forecast, out: Path) -> None:
    """The history's last rows, the forecast after them and its intervals, a panel a column."""
    frame = forecast.to_frame()
    known = history.tail(len(frame) * 2)
    columns = [name for name in frame.columns if name in known.columns][:MOST_COLUMNS]
    figure, rows = panels(len(columns))
    for panel, name in zip(rows, columns, strict=True):
        panel.plot(range(-len(known), 0), known[name].to_numpy(), color="0.35", linewidth=1)
        steps = range(len(frame))
        panel.plot(steps, frame[name].to_numpy(), color="tab:blue", linewidth=1.4)
        for interval, shade in zip(forecast.intervals, _SHADES[::-1], strict=False):
            lower, upper = interval.lower[str(name)], interval.upper[str(name)]
            panel.fill_between(
                steps, lower, upper, color="tab:blue", alpha=shade, linewidth=0, label=f"{interval.level} %"
            )
        panel.set_ylabel(str(name))
    if forecast.intervals:
        rows[0].legend(loc="upper left", fontsize="small")
    rows[-1].set_xlabel("time steps from the forecast's first")
    save(figure, out)


def draw_backtest(result: BacktestResult, out: Path) -> None:
    """Errors and coverage by step."""
    figure, rows = panels(2 if result.lower else 1)
    steps = range(1, len(result.by_step) + 1)
    rows[0].plot(steps, [one.mae for one in result.by_step], color="tab:blue", label="MAE")
    rows[0].plot(steps, [one.mse**0.5 for one in result.by_step], color="tab:orange", label="root of MSE")
    rows[0].legend()
    for level in result.lower:
        share = [100 * one.coverage[level] for one in result.by_step]
        (line,) = rows[-1].plot(steps, share, label=f"{level} % interval")
        rows[-1].axhline(level, color=line.get_color(), linewidth=0.8, linestyle=":")
    if result.lower:
        rows[-1].set_ylabel("truths inside, %")
        rows[-1].legend()
    rows[-1].set_xlabel("step of the horizon")
    save(figure, out)


def panels(count: int, option: str = "--plot") -> tuple[Any, list[Any]]:
    """A figure with panels below each other. Raises BadParameter for `option` without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        hint = 'pictures need matplotlib: pip install "pressroom[demo]"'
        raise typer.BadParameter(hint, param_hint=option) from None
    matplotlib.use("Agg")  # no display needed
    import matplotlib.pyplot as plt

    figure, rows = plt.subplots(count, 1, sharex=True, squeeze=False, figsize=(9, 1.2 + 1.8 * count))
    return figure, list(rows[:, 0])


def save(figure: Any, out: Path, option: str = "--plot") -> None:
    """Write a picture and forget it. Raises BadParameter for `option` if the file cannot be written."""
    import matplotlib.pyplot as plt

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, dpi=120, bbox_inches="tight")
    except (OSError, ValueError) as error:  # matplotlib refuses endings it does not know with a ValueError
        raise typer.BadParameter(f"{out.name} cannot be drawn: {error}", param_hint=option) from None
    finally:
        plt.close(figure)
