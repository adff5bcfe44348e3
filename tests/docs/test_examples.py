"""The scripts in examples/ run against a server as they are, and say the same as each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from etth1 import COLUMNS
from live_server import LiveServer, clean_environment
from manual import ROOT

EXAMPLES = ROOT / "examples"


def run(script: str, *options: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *options],
        cwd=folder, env=clean_environment(folder), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_the_data_frame_example_prints_and_draws(transport: str, server: LiveServer, tmp_path: Path) -> None:
    url = server.url if transport == "http" else f"grpc://{server.grpc_address}"
    out = run("forecast_dataframe.py", "--url", url, "--out", "here/forecast.png", folder=tmp_path)
    assert all(column in out for column in COLUMNS)
    assert (tmp_path / "here" / "forecast.png").stat().st_size > 10_000


def test_the_tritonclient_example_agrees_with_the_client(server: LiveServer, tmp_path: Path) -> None:
    from pressroom_client import Client

    addresses = ("--http", server.address, "--grpc", server.grpc_address)
    out = run("forecast_tritonclient.py", *addresses, folder=tmp_path)
    assert "(1, 96, 7)" in out
    assert "differ by 0.0e+00" in out
    printed = [float(x) for x in out[out.index("[") + 1 : out.index("]")].split(",")]
    with Client(server.url) as client:
        expected = client.forecast(last_rows(), model="itransformer-etth1").single
    np.testing.assert_allclose(printed, [expected.values[c][0] for c in COLUMNS], atol=2e-3)


def last_rows() -> object:
    import pandas as pd

    return pd.read_csv(ROOT / "data" / "ett" / "ETTh1.csv", index_col="date", parse_dates=True).tail(96)


def test_every_example_has_a_row_in_the_gallery() -> None:
    gallery = (EXAMPLES / "README.md").read_text()
    assert [file.name for file in EXAMPLES.glob("*.py") if f"| [{file.name}]({file.name})" not in gallery] == []


def test_every_example_is_run_by_a_test() -> None:
    texts = (Path(__file__), ROOT / "README.md", *(ROOT / "tests").glob("*/test_*.py"))
    text = "".join(one.read_text() for one in texts)
    assert [file.name for file in EXAMPLES.iterdir() if file.is_file() and file.name not in text] == []
