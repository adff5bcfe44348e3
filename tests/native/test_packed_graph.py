"""A pruned model, packed, answers as the plain graph does; what is not 2:4 is refused by name."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tiny_llm import TEXT, VOCABULARY, make_tiny_llama

from export.errors import ConversionError, OptionError
from export.hugging_face import load_tokenizer
from export.llm import LlmJob, make_graph
from export.llm_folder import ModelFolder
from export.llm_model import make_spec
from export.llm_pack import GRAPH, WEIGHTS, PackReport, pack_graph, read_orders
from export.llm_runner import GraphRunner
from export.prune import prune
from export.prune_plan import PruneJob
from models.llm.spec import PACKED, LanguageModelSpec
from models.packed import library
from models.packed.library import KernelsMissingError, register

LEAST = 1e-4  # logits are of the order of ten


@dataclass(frozen=True)
class Pressed:
    """Plain fp32 graph and packed graph of one pruned model."""

    checkpoint: Path
    plain: Path
    packed: Path
    report: PackReport
    spec: LanguageModelSpec


def press(checkpoint: Path, folder: Path) -> Pressed:
    """Build the fp32 graph of a pruned model and pack it."""
    plain, packed, made = (folder / name for name in ("plain", "packed", "made"))
    for path in (plain, packed, made):
        path.mkdir()
    model = ModelFolder(checkpoint, "tiny")
    make_graph(model, "fp32", made, plain)
    report = pack_graph(plain, packed, read_orders(checkpoint))
    return Pressed(checkpoint, plain, packed, report, make_spec(model, load_tokenizer(checkpoint), PACKED))


@pytest.fixture(scope="session")
def permuted(pruned: Path, tmp_path_factory: pytest.TempPathFactory) -> Pressed:
    """Tied bfloat16 weights, most of them 2:4 in an order of their own."""
    return press(pruned, tmp_path_factory.mktemp("permuted"))


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> Pressed:
    """Untied float32 weights, pruned by magnitude."""
    folder = tmp_path_factory.mktemp("long")
    checkpoint = folder / "pruned"
    dense = make_tiny_llama(folder / "dense")
    short = {"tokens": 64, "evaluation_windows": 2, "speed": False, "compute": "float32"}
    prune(PruneJob(model=str(dense), out=checkpoint, method="magnitude", pattern="2:4", evaluation=TEXT, **short))
    return press(checkpoint, folder)


@pytest.fixture(params=["permuted", "long"])
def pressed(request: pytest.FixtureRequest) -> Pressed:
    found: Pressed = request.getfixturevalue(request.param)
    return found


def logits(graph: Path, spec: LanguageModelSpec, rows: int = 3) -> np.ndarray:
    """After ragged prompts, and after each of three steps of all rows; float32 [4 rows, V]."""
    runner = GraphRunner(graph / GRAPH, spec, rows=rows, capacity=64)
    draw = np.random.default_rng(0)
    prompts = [draw.integers(2, VOCABULARY, 40 - 7 * row).tolist() for row in range(rows)]
    parts = [runner.last(row, prompt)[None] for row, prompt in enumerate(prompts)]
    parts += [runner.step(draw.integers(2, VOCABULARY, rows).tolist()) for _ in range(3)]
    return np.concatenate(parts)


def test_the_packed_graph_answers_as_the_plain_one(level: str, pressed: Pressed) -> None:
    plain, packed = (logits(graph, pressed.spec) for graph in (pressed.plain, pressed.packed))
    assert np.abs(plain).max() > 1
    assert np.abs(plain - packed).max() < LEAST


def test_a_row_of_the_packed_graph_does_not_depend_on_its_mates(permuted: Pressed) -> None:
    draw = np.random.default_rng(1)
    prompts = [draw.integers(2, VOCABULARY, length).tolist() for length in (5, 31, 12)]
    together = GraphRunner(permuted.packed / GRAPH, permuted.spec, rows=3, capacity=64)
    for row, prompt in enumerate(prompts):
        together.last(row, prompt)
    answers = together.step([7, 8, 9])
    alone = GraphRunner(permuted.packed / GRAPH, permuted.spec, rows=1, capacity=64)
    alone.last(0, prompts[1])
    assert alone.step([8]).tobytes() == answers[1:2].tobytes()


def test_bfloat16_weights_stay_so_and_a_tied_embedding_is_stored_once(permuted: Pressed) -> None:
    report = permuted.report
    assert (report.projections, report.short, report.short_head) == (2 * 5, 2 * 5, True)
    assert report.permuted == 2 * 4  # queries with keys and values, output, gate, up; down's order is folded
    graph = onnx.load(permuted.packed / GRAPH, load_external_data=False).graph
    assert {"Linear16", "Embedding16", "PackedLinear24"} <= {node.op_type for node in graph.node}
    assert "MatMul" not in {node.op_type for node in graph.node}
    assert len({node.input[1] for node in graph.node if node.op_type in ("Linear16", "Embedding16")}) == 1


def test_float32_weights_are_not_rounded(long: Pressed) -> None:
    assert (long.report.short, long.report.permuted, long.report.short_head) == (0, 0, False)
    graph = onnx.load(long.packed / GRAPH, load_external_data=False).graph
    assert [node.name for node in graph.node if node.op_type == "MatMul"] == ["/lm_head/MatMul"]


def test_the_report_tells_the_sizes(pressed: Pressed) -> None:
    report = pressed.report
    assert report.packed_bytes == (pressed.packed / WEIGHTS).stat().st_size
    assert report.dense_bytes == (pressed.plain / WEIGHTS).stat().st_size
    bytes_a_weight = 4 * report.projection_packed_bytes / report.projection_dense_bytes
    assert bytes_a_weight == (1.125 if report.short else 2.125)


def test_packing_twice_writes_the_same_bytes(permuted: Pressed, tmp_path: Path) -> None:
    pack_graph(permuted.plain, tmp_path, read_orders(permuted.checkpoint))
    for name in (GRAPH, WEIGHTS):
        assert (tmp_path / name).read_bytes() == (permuted.packed / name).read_bytes()


def test_a_model_that_is_not_pruned_is_refused_by_layer(permuted: Pressed, tmp_path: Path) -> None:
    """Here: pruned in another order than the file's, and the orders are left away."""
    with pytest.raises(ConversionError, match=r"/model/layers\.0/attn/qkv_proj/MatMul: row \d+, inputs") as refused:
        pack_graph(permuted.plain, tmp_path)
    assert "pressroom prune --pattern 2:4" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_graph_without_projections_is_refused(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [1]) for name in "xy")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "other", [x], [y])), tmp_path / GRAPH)
    (out := tmp_path / "out").mkdir()
    with pytest.raises(ConversionError, match="no projections to pack"):
        pack_graph(tmp_path, out)


def test_loading_without_the_kernels_says_what_to_do(permuted: Pressed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY", permuted.packed / "missing.so")
    with pytest.raises(KernelsMissingError, match="packed 2:4 layers") as refused:
        register(ort.SessionOptions(), permuted.packed / GRAPH)
    assert "make setup" in refused.value.hint
    register(ort.SessionOptions(), permuted.plain / GRAPH)  # ordinary graphs need none


def test_pressing_without_the_kernels_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY", Path("missing.so"))
    with pytest.raises(OptionError, match="kernels are not built") as refused:
        LlmJob(model="smollm2", name="tiny", precision="packed-2:4")
    assert "C++ compiler" in refused.value.hint


def test_weights_are_mapped_not_copied(permuted: Pressed, tmp_path: Path) -> None:
    """The served process holds no second copy: the session reads the file it was given."""
    shutil.copytree(permuted.packed, tmp_path / "copy")
    place = (tmp_path / "copy" / WEIGHTS).resolve()
    runner = GraphRunner(tmp_path / "copy" / GRAPH, permuted.spec, rows=1, capacity=64)
    assert str(place) in Path("/proc/self/maps").read_text()
    del runner
