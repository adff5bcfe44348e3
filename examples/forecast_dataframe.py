"""Forecast a data frame and draw it: `python examples/forecast_dataframe.py [--url URL] [--model NAME] [--out FILE]`.

Needs a running server (`make serve`), pandas and matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draw into a file, no display needed
import matplotlib.pyplot as plt
import pandas as pd
from pressroom_client import Client

ETTH1 = Path(__file__).resolve().parents[1] / "data" / "ett" / "ETTh1.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description="Forecast the days after ETTh1's last rows.")
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="http://host:port or grpc://host:port")
    parser.add_argument("--model", default="itransformer-etth1")
    parser.add_argument("--column", default="OT", help="the column to draw")
    parser.add_argument("--out", type=Path, default=Path("out/forecast.png"))
    options = parser.parse_args()

    history = pd.read_csv(ETTH1, index_col="date", parse_dates=True).tail(96)
    with Client(options.url) as client:
        result = client.forecast(history, model=options.model)
    forecast = result.frame  # the same columns, on the 96 hours that follow

    print(f"{result.model}:{result.version} {result.digest}")
    print(forecast.resample("D").mean().round(2))
    draw(history[options.column], forecast[options.column], options.out)
    print(f"drawn to {options.out}")


def draw(history: pd.Series[float], forecast: pd.Series[float], out: Path) -> None:
    figure, axis = plt.subplots(figsize=(10, 4), layout="constrained")
    axis.plot(history.index, history, label="history")
    axis.plot(forecast.index, forecast, label="forecast")
    axis.set_ylabel(str(history.name))
    axis.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    plt.close(figure)


if __name__ == "__main__":
    main()
