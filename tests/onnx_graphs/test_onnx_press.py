"""Pressing graphs that came as graphs: what is refused and why, what the certificate compares, what they say."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from graphs import AFFINE, FLOAT, affine, graph, mixed_rows, one_node, pick, write
from live_server import PRESSROOM, clean_environment
from onnx import helper

from export.artifact import read_artifact
from export.errors import CheckpointFileError, ConversionError, DataError, ExportError, ParityError
from export.onnx_cases import plan_cases, read_sample
from export.onnx_file import read_graph
from export.onnx_parity import (
    EVALUATOR,
    HALF,
    PLAIN,
    certificate,
    check_case,
    recheck,
    reference,
    require,
    session,
    tolerance_of,
)


def certify(file: Path, *, evaluator: bool = True) -> str:
    """Everything between reading and storing; returns what was compared with."""
    found = read_graph(file)
    run = session(file)
    cases = plan_cases(found.inputs, None)
    against, expected = reference(found.model, file, cases[0], evaluator=evaluator)
    require([check_case(case, expected(case.inputs), run) for case in cases], against)
    return against


def text(folder: Path) -> Path:
    (folder / "x.onnx").write_text("not a graph, but a sentence")
    return folder / "x.onnx"


def external(tmp_path: Path) -> Path:
    onnx.save(affine(), tmp_path / "x.onnx", save_as_external_data=True, location="x.bin", size_threshold=0)
    return tmp_path / "x.onnx"


def no_tensor(tmp_path: Path) -> Path:
    model = one_node("SequenceConstruct")
    kind = helper.make_tensor_sequence_value_info("y", FLOAT, ["batch", 3])
    model.graph.output[0].CopyFrom(kind)
    return write(model, tmp_path / "x.onnx")


def of_opset(version: int, tmp_path: Path) -> Path:
    model = one_node("Relu")
    model.opset_import[0].version = version
    return write(model, tmp_path / "x.onnx")


def two_batches(tmp_path: Path) -> Path:
    model = graph(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        [("a", FLOAT, ["rows", 3]), ("b", FLOAT, ["columns", 3, 4])],
        [("y", FLOAT, ["columns", "rows", 4])],
    )
    return write(model, tmp_path / "x.onnx")


REFUSED: list[tuple[Callable[[Path], Path], type[ExportError], str]] = [
    (lambda p: write(onnx.ModelProto(), p / "x.onnx"), CheckpointFileError, "holds no ONNX graph"),
    (text, CheckpointFileError, "is not an ONNX file"),
    (external, CheckpointFileError, "the weights are not in the file: 'weight'"),
    (lambda p: write(one_node("Magic", domain="my.ops"), p / "x.onnx"), ConversionError, "operator my.ops::Magic"),
    (lambda p: of_opset(6, p), ConversionError, "opset 6, served are 7 to"),
    (lambda p: of_opset(99, p), ConversionError, "opset 99, served are 7 to"),
    (lambda p: write(affine(1), p / "x.onnx"), ConversionError, "fixed at 1"),
    (two_batches, ConversionError, "not one: columns, rows"),
    (no_tensor, ConversionError, "output 'y' is no tensor"),
]


@pytest.mark.parametrize(("make", "refusal", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_what_cannot_be_served_is_refused_by_name(
    make: Callable[[Path], Path], refusal: type[ExportError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(refusal) as refused:
        read_graph(make(tmp_path))
    assert words in refused.value.message
    assert str(tmp_path) not in refused.value.message


def test_a_newer_file_format_is_refused(tmp_path: Path) -> None:
    model = affine()
    model.ir_version = onnx.IR_VERSION + 1
    with pytest.raises(CheckpointFileError, match=f"reads up to {onnx.IR_VERSION}"):
        read_graph(write(model, tmp_path / "x.onnx"))


def test_a_graph_that_mixes_its_rows_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="rows are not independent"):
        certify(write(mixed_rows(), tmp_path / "x.onnx"))


def test_a_graph_that_draws_at_random_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="nothing was stored"):
        certify(write(one_node("RandomNormalLike"), tmp_path / "x.onnx"))


def test_an_output_that_is_not_finite_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="not finite"):
        certify(write(one_node("Log"), tmp_path / "x.onnx"))


def test_the_reference_is_the_evaluator_where_it_can_run_the_graph(tmp_path: Path) -> None:
    assert certify(write(affine(), tmp_path / "a.onnx")) == EVALUATOR
    assert certify(write(affine(), tmp_path / "a.onnx"), evaluator=False) == PLAIN
    built_in = one_node("BiasGelu", domain="com.microsoft")  # onnxruntime has it, the evaluator does not
    built_in.graph.node[0].input.append("bias")
    built_in.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(3, np.float32), "bias"))
    assert certify(write(built_in, tmp_path / "b.onnx")) == PLAIN


def test_a_wrong_answer_is_a_breach_that_names_its_size(tmp_path: Path) -> None:
    found = read_graph(write(affine(), tmp_path / "x.onnx"))
    (case, *_), run = plan_cases(found.inputs, None), session(tmp_path / "x.onnx")
    right = run(case.inputs)["y"]
    assert check_case(case, {"y": right}, run).holds
    unit = max(1.0, float(np.abs(right).max()))
    result = check_case(case, {"y": right + np.float32(0.01 * unit)}, run)
    assert not result.holds
    assert result.graph.max_abs == pytest.approx(0.01, rel=0.05)
    with pytest.raises(ParityError, match="parity breach: onnxruntime differs from the truth"):
        require([result], "the truth")


def test_a_fixed_batch_is_freed_when_asked_to(tmp_path: Path) -> None:
    found = read_graph(write(affine(1), tmp_path / "x.onnx"), free_batch=True)
    assert found.inputs[0].shape == ["batch", 3]
    assert found.outputs[0].shape == ["batch", 2]
    run = session(write(found.model, tmp_path / "free.onnx"))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(run({"x": x})["y"], x @ AFFINE + 1, rtol=1e-6)


def test_rows_of_the_callers_own_are_used_in_turn(tmp_path: Path) -> None:
    found = read_graph(write(pick(), tmp_path / "x.onnx"))
    rows = {"table": np.arange(12.0).reshape(3, 4), "index": np.array([[3], [0], [2]])}
    np.savez(tmp_path / "rows.npz", **rows)
    cases = plan_cases(found.inputs, read_sample(tmp_path / "rows.npz", found.inputs))
    assert [case.rows for case in cases] == [1, 2, 3, 5, 7]
    assert cases[3].inputs["index"].ravel().tolist() == [3, 0, 2, 3, 0]
    assert cases[3].inputs["table"].shape == (5, 4)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"table": np.zeros((2, 4))}, "holds table"),
        ({"table": np.zeros((2, 4)), "index": np.zeros((2, 1))}, "index is float64, the graph takes INT64"),
        ({"table": np.zeros((2, 4)), "index": np.zeros((2, 3), np.int64)}, "index has shape [2, 3]"),
        ({"table": np.zeros((2, 4)), "index": np.zeros((1, 1), np.int64)}, "inputs have 2, 1 rows"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: dict[str, np.ndarray], words: str, tmp_path: Path) -> None:
    found = read_graph(write(pick(), tmp_path / "x.onnx"))
    np.savez(tmp_path / "rows.npz", **rows)
    with pytest.raises(DataError) as refused:
        read_sample(tmp_path / "rows.npz", found.inputs)
    assert words in refused.value.message


def test_float16_graphs_are_certified_and_judged_by_one_tolerance(tmp_path: Path) -> None:
    half = onnx.TensorProto.FLOAT16
    nodes = [helper.make_node("Exp", ["x"], ["power"]), helper.make_node("Softmax", ["power"], ["y"])]
    model = graph(nodes, [("x", half, ["batch", 3])], [("y", half, ["batch", 3])])
    found = read_graph(write(model, tmp_path / "x.onnx"))
    run = session(tmp_path / "x.onnx")
    results = [check_case(case, run(case.inputs), run) for case in plan_cases(found.inputs, None)]
    assert tolerance_of(results) == HALF
    assert certificate(results, PLAIN, 20)["tolerance"] == asdict(HALF)


def test_a_pressed_graph_says_what_it_takes_and_is_verified_by_the_command(graph_home: Path) -> None:
    artifact = read_artifact(graph_home / "models" / "pick" / "1")
    signature = artifact.manifest.signature
    assert [(t.name, t.dtype, t.shape) for t in signature.inputs] == [
        ("table", "FP64", ["batch", "n"]),
        ("index", "INT64", ["batch", 1]),
    ]
    assert [(t.name, t.dtype, t.shape) for t in signature.outputs] == [
        ("picked", "FP64", ["batch", 1]),
        ("large", "BOOL", ["batch", 1]),
    ]
    assert artifact.read_json("parity.json")["verdict"] == "ok"
    assert all(result.holds for result in recheck(artifact))
    done = subprocess.run(
        [PRESSROOM, "verify", "pick", "--json"],
        env=clean_environment(graph_home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [case["name"] for case in json.loads(done.stdout)["cases"]] == [f"batch_{n}" for n in (1, 2, 3, 5, 7)]
