"""Folders that `pressroom prune` wrote are pressed with their receipt; tests/docs/test_demo.py presses 2:4 twins."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from tiny_llm import make_tiny_llama

from export.artifact import open_artifact
from export.llm import LlmJob, press
from export.prune import prune, with_bundled_texts
from export.prune_plan import PruneJob
from pressroom.bundled_llm import CALIBRATION


def test_channels_that_were_cut_off_make_the_pressed_graph_smaller(llm_store: Path, tmp_path: Path) -> None:
    dense = make_tiny_llama(tmp_path / "tiny", kind="Qwen3", head_dim=16)
    job = PruneJob(
        model=str(dense), out=tmp_path / "cut", method="magnitude", pattern="channels", sparsity=0.25, tokens=32,
        calibration=CALIBRATION, evaluation_windows=1, windows=1, speed=False,
    )  # fmt: skip
    receipt = prune(with_bundled_texts(job))
    stored = press(LlmJob(model=str(tmp_path / "cut"), name="cut", precision="fp32", windows=1)).stored
    artifact = open_artifact("cut")
    assert artifact.manifest.hyper_parameters["intermediate_size"] == 96
    graph = onnx.load(stored.path / "model.onnx", load_external_data=False)
    shapes = {one.name: list(one.dims) for one in graph.graph.initializer}
    assert shapes["model.layers.1.mlp.down_proj.MatMul.weight"] == [96, 64]
    assert artifact.read_json("receipt.json") == json.loads(json.dumps(receipt))
    found = {metric.name: metric.value for metric in artifact.manifest.metrics}
    assert found["removed"] == pytest.approx(receipt["total"]["removed"], rel=1e-4)
    assert found["weights_bytes_ratio"] < 1
