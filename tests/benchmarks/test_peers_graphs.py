"""The two graphs made for peers, against second implementations of what they compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from benchmarks.peers.graphs import BOXES, LABELS, SIDE, write_mlp, write_region_scorer
from export.artifact import read_artifact
from models.clipself.pipeline.engine import ARRAYS, REGIONS, TEXT, VISION, Engine, Graphs, Wanted
from models.clipself.pipeline.label_embeddings import LabelEmbedder
from models.clipself.pipeline.spec import DetectSpec
from services.core.runtime import OnnxRuntime, RuntimeOptions


def _run(graph):
    return OnnxRuntime(graph, RuntimeOptions(threads=1)).run


def test_the_mlp_is_two_layers_and_the_same_every_time(tmp_path):
    import onnx
    from onnx import numpy_helper

    for name in ("one.onnx", "two.onnx"):
        write_mlp(tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
    weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(tmp_path / "one.onnx").graph.initializer}
    x = np.random.default_rng(0).standard_normal((3, 96, 7)).astype(np.float32)
    hidden = np.maximum(x.reshape(3, -1) @ weights["w0"] + weights["b0"], 0)
    expected = (hidden @ weights["w1"] + weights["b1"]).reshape(x.shape)
    np.testing.assert_allclose(_run(tmp_path / "one.onnx")({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 3])
def test_region_scores_are_the_artifacts_own(clips_home: Path, tmp_path: Path, count: int) -> None:
    clip = read_artifact(clips_home / "models" / "clipself-tiny" / "1")
    write_region_scorer(clip, tmp_path / "regions.onnx")
    rng = np.random.default_rng(count)
    pixels = rng.standard_normal((count, 3, SIDE, SIDE)).astype(np.float32)
    corner = rng.uniform(0, 40, (count, BOXES, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(4, 24, corner.shape)], axis=2).astype(np.float32)
    found = _run(tmp_path / "regions.onnx")({"pixels": pixels, "boxes": boxes})["scores"]

    spec, arrays = DetectSpec.from_settings(clip.manifest.settings), load_file(clip.file(ARRAYS))
    engine = Engine(spec, Graphs.of(spec, (VISION, TEXT, REGIONS), lambda name: _run(clip.file(name)), arrays))
    embedder = LabelEmbedder(engine, arrays)
    labels = np.stack([embedder.embed(label, spec.templates) for label in LABELS])
    seen = engine.look(pixels, [Wanted(labels=labels, boxes=one) for one in boxes])
    np.testing.assert_allclose(found, np.stack([one.regions for one in seen]), rtol=0, atol=1e-5)
