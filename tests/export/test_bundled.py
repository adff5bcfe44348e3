"""The bundled checkpoints: pressed to ONNX once for this file, with the errors their papers print."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

from export.artifact import open_artifact
from export.checkpoints import read_checkpoint
from export.example import answer
from export.onnx_graph import GraphShape, convert
from export.parity import recheck
from export.runner import artifact_runner
from export.training_data import read_table
from models.forecasting.pipeline import to_raw, to_tensors
from models.forecasting.registry import architecture
from models.forecasting.spec import ForecastSpec
from pressroom.bundled import BUNDLED, up_to_date

ROOT = Path(__file__).parents[2]
NAMES = {"itransformer-etth1": "itransformer_etth1_96_96", "card-etth1": "card_etth1_96_96"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("bundled_store")


def document(name: str) -> Any:
    return json.loads((ROOT / "data" / "checkpoints" / f"{NAMES[name]}.json").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_test_errors_equal_the_training_runs(name: str) -> None:
    metrics = {(m.origin, m.name): m.value for m in open_artifact(name).manifest.metrics}
    assert metrics["measured", "mse"] == pytest.approx(document(name)["metrics_test"]["mse"], abs=2e-6)
    assert metrics["measured", "mae"] == pytest.approx(document(name)["metrics_test"]["mae"], abs=2e-6)
    assert metrics["paper", "mse"] == document(name)["paper_test"]["mse"]
    measured = [m for m in open_artifact(name).manifest.metrics if m.origin == "measured"]
    assert {(m.windows, m.data, m.split) for m in measured} == {(2785, "ETTh1.csv", "test (ett-hourly)")}


@pytest.mark.parametrize("name", NAMES)
def test_forecasts_in_raw_units_equal_the_official_programs(name: str) -> None:
    """Five test windows recorded at training time, through the whole pipeline, within the checkpoint's tolerance."""
    artifact = open_artifact(name)
    spec, run = ForecastSpec.from_settings(artifact.manifest.settings), artifact_runner(artifact)
    samples = load_file(ROOT / "data" / "checkpoints" / f"{NAMES[name]}_samples.safetensors")
    table = read_table(ROOT / "data" / "ett" / "ETTh1.csv")
    assert table.stamps is not None
    assert spec.scaler is not None
    rows = samples["input.first_row"].astype(int)
    history = np.stack([table.values[r : r + 96] for r in rows])
    stamps = np.stack([table.stamps[r : r + 96] for r in rows])
    forecast = to_raw(run(to_tensors(history, stamps, spec)), spec)
    apart = np.abs(forecast - samples["output.forecast_units"]) / spec.scaler.std
    scaled = np.abs(samples["output.forecast_scaled"])
    tolerance = document(name)["tolerance"]
    assert (apart <= tolerance["atol"] + tolerance["rtol"] * scaled).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_case_holds_again(name: str) -> None:
    artifact = open_artifact(name)
    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    results = recheck(artifact, artifact_runner(artifact), spec)
    assert len(results) >= 5
    assert {len(r.case.history) for r in results} >= {1, 7}
    assert all(r.graph.holds and (r.pipeline is None or r.pipeline.holds) for r in results)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_a_request_with_its_answer(name: str) -> None:
    artifact = open_artifact(name)
    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    example = artifact.read_json("example.json")
    (sent,), (expected,) = example["request"]["series"], example["response"]["series"]
    assert example["request"]["model"] == name
    assert len(sent["values"]["OT"]) == len(sent["timestamps"]) == 96
    got = answer(sent, artifact_runner(artifact), spec)
    assert got["timestamps"] == expected["timestamps"]
    for column in spec.columns or ():
        np.testing.assert_allclose(got["values"][column], expected["values"][column], **example["tolerance"])


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_does_not_depend_on_its_batch_mates(name: str) -> None:
    artifact = open_artifact(name)
    run = artifact_runner(artifact)
    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    arrays = load_file(artifact.file("parity.safetensors"))
    together = to_tensors(arrays["batch-7/history"], arrays["batch-7/wall_clock"], spec)
    alone = np.concatenate([run({k: v[i : i + 1] for k, v in together.items()}) for i in range(7)])
    np.testing.assert_allclose(run(together), alone, atol=2e-5, rtol=1e-4)  # the certificate's tolerance


def test_itransformers_graph_takes_any_batch_columns_and_calendar() -> None:
    graph = onnx.load(open_artifact("itransformer-etth1").file("model.onnx"))
    axes = {
        tensor.name: [d.dim_param or d.dim_value for d in tensor.type.tensor_type.shape.dim]
        for tensor in (*graph.graph.input, *graph.graph.output)
    }
    assert axes == {
        "x_enc": ["batch", 96, "variates"],
        "x_mark_enc": ["batch", 96, "marks"],
        "forecast": ["batch", 96, "variates"],
    }
    assert [entry.version for entry in graph.opset_import if entry.domain == ""] == [20]


def test_cards_graph_is_fixed_to_its_columns() -> None:
    graph = onnx.load(open_artifact("card-etth1").file("model.onnx"))
    (tensor,) = graph.graph.input
    assert [d.dim_param or d.dim_value for d in tensor.type.tensor_type.shape.dim] == ["batch", 96, 7]


@pytest.mark.parametrize("name", NAMES)
def test_no_path_of_this_machine_is_in_any_file(name: str, pressed_home: Path) -> None:
    artifact = open_artifact(name)
    for file in artifact.path.iterdir():
        content = file.read_bytes()
        for place in (ROOT, Path.home(), pressed_home, Path("/usr/lib"), Path("site-packages")):
            assert str(place).encode() not in content or len(str(place)) < 4, f"{place} in {file.name}"


def test_the_same_network_becomes_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    record = architecture("itransformer")
    checkpoint = read_checkpoint(ROOT / "data" / "checkpoints" / "itransformer_etth1_96_96.safetensors")
    config = record.parse_config(document("itransformer-etth1")["config"])
    network = record.build(config)
    network.load_state_dict(record.translate(checkpoint.state, config).state)
    convert(network, GraphShape(look_back=96, variates=None, marks=4), tmp_path / "again.onnx")
    stored = open_artifact("itransformer-etth1").file("model.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == stored.read_bytes()


def test_pressing_again_finds_the_work_done(pressroom: Run, pressed_home: Path) -> None:
    again = pressroom(pressed_home, "export", "bundled", "--json")
    found = json.loads(again.stdout)
    assert [(entry["tag"], entry["unchanged"]) for entry in found] == [
        ("itransformer-etth1:1", True),
        ("card-etth1:1", True),
    ]


def test_work_is_not_done_if_the_artifact_is_gone_damaged_or_of_another_recipe(copied_home: Path) -> None:
    itransformer, card = BUNDLED
    assert up_to_date(card) is not None
    assert up_to_date(itransformer) is not None
    (copied_home / "models" / card.name / "1" / "example.json").write_text("{}")
    assert up_to_date(card) is None
    stamp = copied_home / "pressroom" / f"bundled-{itransformer.name}.json"
    stamp.write_text(stamp.read_text().replace('"recipe": "', '"recipe": "0'))
    assert up_to_date(itransformer) is None
