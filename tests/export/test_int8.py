"""int8 exports: what is quantised, certified, measured, shown and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from export import detect, detect_int8, forecast_certify, int8
from export.artifact import Runtime, open_artifact
from export.detect_source import DetectJob
from export.errors import ConversionError, OptionError, ParityError
from export.forecast import press
from export.parity import recheck
from export.runner import artifact_runner, onnx_runner
from models.forecasting.spec import ForecastSpec
from pressroom.bundled import BUNDLED, job

CARD = next(one for one in BUNDLED if one.architecture == "card")
FOLDER = Path(__file__).parents[2] / "data" / "checkpoints" / "clipself_tiny"


def linear_graph(path: Path, weights: np.ndarray) -> Path:
    """x [B, n] -> x @ weights."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "line",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", weights.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", weights.shape[1]])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)


def rounded(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same product as the scheme defines it, in exact integers: activations to 8 bits with a zero point, each
    column of weights to 7 bits."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = np.float32((high - low) / 255)
    zero = np.clip(np.rint(-low / step), 0, 255)
    codes = np.clip(np.rint(x / step) + zero, 0, 255) - zero
    scale = np.abs(weights).max(axis=0) / 64
    return (codes @ np.rint(weights / scale)) * step * scale


def test_a_quantised_layer_computes_the_scheme(tmp_path: Path, weights: np.ndarray) -> None:
    graph = linear_graph(tmp_path / "model.onnx", weights)
    x = np.random.default_rng(2).standard_normal((5, 64)).astype(np.float32)
    made = int8.quantise(graph)
    got = ort.InferenceSession(str(graph)).run(None, {"x": x})[0]
    assert (made.layers, made.fp32_bytes > made.int8_bytes) == (1, True)
    np.testing.assert_allclose(got, rounded(x, weights), rtol=1e-4, atol=1e-3)
    assert 0.01 < np.abs(got - x @ weights).max() < 1.0  # rounded, and no more than that


def test_weights_keep_to_seven_bits_so_that_sums_saturate_nowhere(tmp_path: Path, weights: np.ndarray) -> None:
    graph = linear_graph(tmp_path / "model.onnx", weights)
    int8.quantise(graph)
    stored = [numpy_helper.to_array(one) for one in onnx.load(graph).graph.initializer]
    (codes,) = [one for one in stored if one.dtype == np.int8 and one.ndim == 2]
    assert np.abs(codes.astype(int)).max() == 64


def test_quantising_twice_gives_the_same_bytes_without_names_of_tools(tmp_path: Path, weights: np.ndarray) -> None:
    one, other = (linear_graph(tmp_path / f"{name}.onnx", weights) for name in "ab")
    int8.quantise(one)
    int8.quantise(other)
    assert one.read_bytes() == other.read_bytes()
    assert onnx.load(one).producer_name == "pressroom"


def test_a_graph_without_layers_to_quantise_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Abs", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "abs", ends[:1], ends[1:]), ir_version=10)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ConversionError, match="no layer that int8 could be used for"):
        int8.quantise(tmp_path / "model.onnx")


def test_mates_is_the_largest_change_by_what_shares_the_batch() -> None:
    def run(tensors):  # every row's answer is the batch's mean
        return np.broadcast_to(tensors["x"].mean(axis=0), tensors["x"].shape)

    assert int8.mates(run, {"x": np.array([[0.0], [1.0], [5.0]], dtype=np.float32)}) == 3.0


def test_a_forecaster_is_certified_and_measured_in_both_precisions(home: Path) -> None:
    pressed = press(replace(job(CARD), name="small", precision="int8", extra_metrics=()))
    artifact = open_artifact("small")
    certificate = artifact.read_json("parity.json")
    assert certificate["verdict"] == "ok"
    assert certificate["tolerance"] == {"atol": int8.TOLERANCE.atol, "rtol": int8.TOLERANCE.rtol}
    assert 0.01 < certificate["max_abs"] < 0.1
    assert certificate["max_abs"] > 100 * certificate["int8"]["fp32"]["max_abs"]  # it is another network's answers
    assert 0 < certificate["int8"]["mates"] < int8.TOLERANCE.atol
    assert certificate["int8"]["layers"] > 10
    assert certificate["runtime"].endswith("int8")
    assert artifact.manifest.settings["precision"] == "int8"
    assert artifact.manifest.files["model.onnx"].bytes == certificate["int8"]["bytes"]

    values = {metric.name: metric.value for metric in pressed.metrics}
    assert values.keys() == {"mse", "mae", "mse_fp32", "mae_fp32"}
    for name in ("mse", "mae"):
        assert values[name] != values[f"{name}_fp32"]
        assert values[name] == pytest.approx(values[f"{name}_fp32"], rel=0.01)

    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    assert all(result.graph.holds for result in recheck(artifact, artifact_runner(artifact), spec))


def test_fp32_says_nothing_of_precision(press_small, home: Path) -> None:
    press_small()
    artifact = open_artifact("small")
    assert "precision" not in artifact.manifest.settings
    assert "int8" not in artifact.read_json("parity.json")


def test_int8_that_is_too_far_off_says_that_the_network_does_not_bear_it(
    tmp_path: Path, weights: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breach(*given: object) -> None:
        assert given[-1] == int8.TOLERANCE
        raise ParityError("parity breach: graph differs by 0.7", "another way out")

    linear_graph(tmp_path / "model.onnx", weights)
    monkeypatch.setattr(forecast_certify, "certify", breach)
    with pytest.raises(ParityError, match="int8: parity breach: graph differs") as refused:
        forecast_certify.quantise(None, Runtime(kind="onnx", file="model.onnx"), {}, "m", tmp_path)  # type: ignore[arg-type]
    assert refused.value.hint == "this network does not bear int8: export it as fp32"


def test_int8_is_for_graphs(press_small, home: Path) -> None:
    with pytest.raises(OptionError, match="int8 is for ONNX graphs"):
        press_small(runtime="torch", precision="int8")


def test_a_tower_is_certified_and_its_embeddings_compared(home: Path, invoke) -> None:
    tower = DetectJob(
        checkpoint=FOLDER / "clip_tiny_before.safetensors", config=str(FOLDER / "clip_tiny.json"), name="x",
        precision="int8",
    )  # fmt: skip
    pressed = detect.press(tower)
    cosines = {metric.name: metric.value for metric in pressed.metrics}
    assert cosines.keys() == {
        f"{output}_{figure}_with_fp32" for output in ("dense", "image", "text") for figure in ("cosine", "least_cosine")
    }
    for output in ("dense", "image", "text"):
        least, mean = (cosines[f"{output}_{figure}_with_fp32"] for figure in ("least_cosine", "cosine"))
        assert detect_int8.LEAST_COSINE < least <= mean < 1
    certificate = open_artifact("x").read_json("parity.json")
    assert [one["graph"] for one in certificate["int8"]] == ["vision.onnx", "text.onnx"]
    assert certificate["tolerance"]["atol"] == detect_int8.TOLERANCE.atol

    assert invoke("verify", "x").returncode == 0
    shown = json.loads(invoke("inspect", "x", "--json").stdout)
    assert shown["manifest"]["settings"]["precision"] == "int8"
    assert "text_least_cosine_with_fp32" in invoke("inspect", "x").stdout


def test_a_detector_and_an_unknown_precision_are_refused() -> None:
    with pytest.raises(OptionError, match="not for F-ViT detectors"):
        detect_int8.check_kind(is_detector=True)
    with pytest.raises(OptionError, match="precision 'int4' is not known"):
        DetectJob(checkpoint=FOLDER, config="x", name="x", precision="int4")  # type: ignore[arg-type]


def test_the_quantised_session_is_the_one_that_is_served(tmp_path: Path, weights: np.ndarray) -> None:
    graph = linear_graph(tmp_path / "model.onnx", weights)
    before = onnx_runner(graph)
    int8.quantise(graph)
    x = {"x": np.random.default_rng(3).standard_normal((2, 64)).astype(np.float32)}
    assert not np.array_equal(before(x), onnx_runner(graph)(x))
