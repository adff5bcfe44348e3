"""The same forecast by Triton's own client over HTTP and gRPC: `python examples/forecast_tritonclient.py`.

Needs a running server (`make serve`) and tritonclient, nothing of Pressroom's client. Values are in raw units; the
optional `timestamps` let the server compute the calendar marks iTransformer was trained with.
"""

from __future__ import annotations

import argparse
import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http

ETTH1 = Path(__file__).resolve().parents[1] / "data" / "ett" / "ETTh1.csv"
LOOK_BACK = 96


def main() -> None:
    parser = argparse.ArgumentParser(description="Forecast with tritonclient over both transports.")
    parser.add_argument("--http", default="127.0.0.1:3000")
    parser.add_argument("--grpc", default="127.0.0.1:3001")
    parser.add_argument("--model", default="itransformer-etth1")
    options = parser.parse_args()

    history, timestamps = last_window()
    answers = [
        ask(tritonclient.http, options.http, options.model, history, timestamps),
        ask(tritonclient.grpc, options.grpc, options.model, history, timestamps),
    ]
    print(f"forecast {answers[0].shape}, first hour {np.round(answers[0][0, 0], 3).tolist()}")
    print(f"HTTP and gRPC differ by {np.abs(answers[0] - answers[1]).max():.1e}")


def last_window() -> tuple[np.ndarray, np.ndarray]:
    """history float32 [1, 96, 7] in raw units; timestamps int64 [1, 96], the wall clock as epoch seconds."""
    with ETTH1.open() as file:
        rows = list(csv.reader(file))[-LOOK_BACK:]
    clock = [int(datetime.fromisoformat(row[0]).replace(tzinfo=UTC).timestamp()) for row in rows]
    values = [[float(value) for value in row[1:]] for row in rows]
    return np.array([values], dtype=np.float32), np.array([clock], dtype=np.int64)


def ask(triton: Any, address: str, model: str, history: np.ndarray, timestamps: np.ndarray) -> np.ndarray:
    """The forecast, float32 [1, 96, 7]. `triton` is tritonclient.http or tritonclient.grpc: they look alike."""
    inputs = []
    for name, array, datatype in (("history", history, "FP32"), ("timestamps", timestamps, "INT64")):
        inputs.append(triton.InferInput(name, list(array.shape), datatype))
        inputs[-1].set_data_from_numpy(array)
    client = triton.InferenceServerClient(address)
    try:
        forecast: np.ndarray = client.infer(model, inputs).as_numpy("forecast")
    finally:
        client.close()
    return forecast


if __name__ == "__main__":
    main()
