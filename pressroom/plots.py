"""Pictures of forecasts and backtests; matplotlib is optional."""

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
    figure, panels = _panels(len(columns))
    for panel, name in zip(panels, columns, strict=True):
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
        panels[0].legend(loc="upper left", fontsize="small")
    panels[-1].set_xlabel("time steps from the forecast's first")
    _save(figure, out)


def draw_backtest(result: BacktestResult, out: Path) -> None:
    """Errors and coverage by step."""
    figure, panels = _panels(2 if result.lower else 1)
    steps = range(1, len(result.by_step) + 1)
    panels[0].plot(steps, [one.mae for one in result.by_step], color="tab:blue", label="MAE")
    panels[0].plot(steps, [one.mse**0.5 for one in result.by_step], color="tab:orange", label="root of MSE")
    panels[0].legend()
    for level in result.lower:
        share = [100 * one.coverage[level] for one in result.by_step]
        (line,) = panels[-1].plot(steps, share, label=f"{level} % interval")
        panels[-1].axhline(level, color=line.get_color(), linewidth=0.8, linestyle=":")
    if result.lower:
        panels[-1].set_ylabel("truths inside, %")
        panels[-1].legend()
    panels[-1].set_xlabel("step of the horizon")
    _save(figure, out)


def _panels(count: int) -> tuple[Any, list[Any]]:
    try:
        import matplotlib
    except ImportError:
        hint = 'pictures need matplotlib: pip install "pressroom[demo]"'
        raise typer.BadParameter(hint, param_hint="--plot") from None
    matplotlib.use("Agg")  # no display needed
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(count, 1, sharex=True, squeeze=False, figsize=(9, 1.2 + 1.8 * count))
    return figure, list(panels[:, 0])


def _save(figure: Any, out: Path) -> None:
    import matplotlib.pyplot as plt

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, dpi=120, bbox_inches="tight")
    except (OSError, ValueError) as error:  # matplotlib refuses endings it does not know with a ValueError
        raise typer.BadParameter(f"{out.name} cannot be drawn: {error}", param_hint="--plot") from None
    finally:
        plt.close(figure)
