"""The benchmarks' prepared requests, and one whole run of both programs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import orjson
import pytest

from benchmarks.server import ROOT
from benchmarks.windows import split_windows
from benchmarks.wires import WIRES
from services.core.oip.codec import decode_request
from services.core.oip.messages import ModelInferRequest


@pytest.mark.parametrize("wire", ["oip-json", "oip-binary"])
def test_rest_requests_hold_the_window(wire):
    windows = split_windows()
    head, _, body = WIRES[wire].build("m", windows, 5).partition(b"\r\n\r\n")
    found = head.partition(b"Inference-Header-Content-Length: ")[2].partition(b"\r\n")[0] or None
    tensors = decode_request(body, found).tensors
    np.testing.assert_array_equal(tensors["history"][0], windows.history[5].astype(np.float32))
    np.testing.assert_array_equal(tensors["timestamps"][0], windows.stamps[5])


def test_json_request_holds_the_window():
    windows = split_windows()
    series = orjson.loads(WIRES["json"].build("m", windows, 5).partition(b"\r\n\r\n")[2])["series"][0]
    assert series["timestamps"][0] == str(np.datetime64(int(windows.stamps[5, 0]), "s"))
    np.testing.assert_array_equal(np.array(list(series["values"].values())).T, windows.history[5])


def test_grpc_request_holds_the_window():
    windows = split_windows()
    request = ModelInferRequest.FromString(WIRES["grpc"].build("m", windows, 5))
    history = np.frombuffer(request.raw_input_contents[0], dtype=np.float32)
    np.testing.assert_array_equal(history, windows.history[5].astype(np.float32).ravel())


@pytest.mark.slow
def test_a_tiny_run_measures_every_wire_with_right_answers(tmp_path):
    numbers = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "benchmarks.serving", "--quick", "--seconds", "0.2", "--clients", "4"]
    run = subprocess.run(
        [*command, "--models", "card-etth1", "--json", str(numbers)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr  # 1: a claim about speed may not hold on a busy machine
    cells = json.loads(numbers.read_bytes())["cells"]
    assert len(cells) == 2 * len(WIRES)
    for cell in cells:
        assert cell["median"]["failed"] == cell["median"]["wrong"] == 0
        assert cell["median"]["requests_per_s"] > 0
        assert 0 < cell["median"]["p50_ms"] <= cell["median"]["p99_ms"]


@pytest.mark.slow
def test_served_forecasts_have_the_official_programs_errors():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(" yes") == 10
