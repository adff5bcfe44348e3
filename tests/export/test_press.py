"""Pressing: an official checkpoint becomes a verified artifact, or nothing is stored and the reason is said."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from export import parity
from export.artifact import open_artifact
from export.errors import CheckpointFileError, DataError, ExportError, HyperParameterError, OptionError, ParityError
from export.example import largest_difference
from export.forecast import ForecastJob, Pressed, press
from export.forecast_data import DataOptions
from export.hyperparameters import Stated
from export.runner import artifact_runner
from models.forecasting.spec import ForecastSpec

ETTH1 = Path(__file__).parents[2] / "data" / "ett" / "ETTh1.csv"
ETT = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
HEADS = Stated(flags=("n_heads=8",))
Press = Callable[..., Pressed]
Job = Callable[..., ForecastJob]


def stored(home: Path) -> list[Path]:
    return [path for path in (home / "models").rglob("*") if path.is_file()]


@pytest.mark.parametrize("architecture", ["itransformer", "card"])
def test_an_official_pth_makes_the_round_trip(press_small: Press, architecture: str) -> None:
    pressed = press_small(architecture)
    artifact = open_artifact("small")
    assert (artifact.digest, artifact.tag) == (pressed.stored.digest, "small:1")
    assert artifact.manifest.source.file == "checkpoint.pth"
    assert artifact.manifest.architecture == architecture
    assert pressed.certificate["verdict"] == "ok"
    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    assert spec.columns == ETT
    assert largest_difference(artifact.read_json("example.json"), artifact_runner(artifact), spec) == (0.0, True)


def test_the_certificate_covers_batches_calendar_and_columns(press_small: Press) -> None:
    certificate = press_small().certificate
    cases = {case["name"]: case for case in certificate["cases"]}
    assert {case["batch"] for case in cases.values()} >= {1, 7}
    assert {case["variates"] for case in cases.values()} == {1, 7, 64}
    assert cases["calendar-absent"]["calendar"] is False
    assert all(case["pipeline"] is not None for case in cases.values() if case["raw"])
    assert {"torch", "onnx", "onnxruntime", "numpy"} == certificate["versions"].keys()


def test_the_reference_of_a_certificate_is_the_official_answer(press_small: Press, small_job: Job) -> None:
    """The recorded forecasts equal our network fed by hand with the csv's scaled window."""
    path = press_small("card").stored.path
    arrays = load_file(path / "parity.safetensors")
    spec = ForecastSpec.from_settings(json.loads((path / "artifact.json").read_bytes())["settings"])
    assert spec.scaler is not None
    scaled = (arrays["batch-7/history"] - spec.scaler.mean) / spec.scaler.std
    run = artifact_runner(open_artifact("small"))
    answer = run({"x_enc": scaled.astype(np.float32)})
    np.testing.assert_allclose(arrays["batch-7/forecast"], answer, atol=1e-6)


def test_the_same_bytes_are_stored_once(press_small: Press) -> None:
    first, second = press_small().stored, press_small().stored
    assert (second.tag, second.digest, second.unchanged) == ("small:1", first.digest, True)


def test_other_bytes_get_the_next_version(press_small: Press) -> None:
    press_small()
    second = press_small(stated=replace(HEADS, flags=("n_heads=4",))).stored
    assert (second.tag, second.unchanged) == ("small:2", False)
    assert open_artifact("small").tag == "small:2"


def test_a_version_that_holds_something_else_is_not_overwritten(press_small: Press) -> None:
    press_small(version="3")
    assert press_small(version="3").stored.unchanged
    with pytest.raises(ExportError, match="small:3 exists and holds something else"):
        press_small(version="3", stated=HEADS, data=DataOptions(data=ETTH1, split="custom"))


def test_a_parity_breach_stores_nothing(press_small: Press, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "TOLERANCE", parity.Tolerance(atol=-1.0, rtol=0.0))
    with pytest.raises(ParityError, match="parity breach: graph differs"):
        press_small()
    assert stored(home) == []


def test_a_pipeline_that_scales_otherwise_is_a_breach(
    press_small: Press, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "to_raw", lambda forecast, spec: forecast.astype(np.float64))
    with pytest.raises(ParityError, match="parity breach: pipeline"):
        press_small()
    assert stored(home) == []


def test_no_file_of_an_artifact_tells_where_it_was_made(press_small: Press, tmp_path: Path) -> None:
    path = press_small().stored.path
    secrets = [str(tmp_path), str(Path(__file__).parents[2]), str(Path.home()), socket.gethostname()]
    for file in path.iterdir():
        content = file.read_bytes()
        assert not [secret for secret in secrets if len(secret) > 5 and secret.encode() in content], file.name


def test_a_double_precision_checkpoint_is_noted_in_the_manifest(
    press_small: Press, official: Any, checkpoint: Any
) -> None:
    doubled = {name: tensor.double() for name, tensor in official("itransformer").items()}
    press_small(checkpoint=checkpoint({"model": doubled, "epoch": 3}))
    notes = open_artifact("small").manifest.source.notes
    assert "taken from entry 'model', not used: epoch" in notes
    assert "38 float64 tensors converted to float32" in notes


def test_without_a_scaler_any_columns_are_served(press_small: Press) -> None:
    pressed = press_small(data=DataOptions(scaler="none", freq="h"), stated=Stated(flags=("n_heads=8", "enc_in=7")))
    spec = ForecastSpec.from_settings(open_artifact("small").manifest.settings)
    assert (spec.scaler, spec.columns, spec.takes_marks) == (None, None, True)
    assert pressed.certificate["verdict"] == "ok"


def test_a_network_can_be_served_without_its_calendar(press_small: Press) -> None:
    press_small(data=DataOptions(data=ETTH1, split="ett-hourly", marks=False))
    assert ForecastSpec.from_settings(open_artifact("small").manifest.settings).takes_marks is False


def test_use_norm_0_needs_the_scaler(press_small: Press, home: Path) -> None:
    with pytest.raises(DataError, match="use_norm 0"):
        press_small(
            data=DataOptions(scaler="none", freq="h"), stated=Stated(flags=("n_heads=8", "use_norm=0", "enc_in=7"))
        )
    assert stored(home) == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [(None, "depends on the order of its 7 columns"), (("a", "b"), "the data has 2 columns, .* trained with 7")],
)
def test_card_must_know_its_columns(press_small: Press, columns: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        press_small("card", data=DataOptions(scaler="none", freq="h", columns=columns))


def test_marks_follow_the_training_run_whatever_the_data_s_own_step(press_small: Press) -> None:
    """Official runs on 15-minute data leave `freq` at its default: hourly marks, four tokens."""
    press_small(data=DataOptions(scaler="none", freq="15min"), stated=Stated(flags=("n_heads=8", "enc_in=7")))
    spec = ForecastSpec.from_settings(open_artifact("small").manifest.settings)
    assert (str(spec.frequency), str(spec.calendar), spec.marks_width) == ("15min", "h", 4)


def test_calendar_numbers_that_are_not_marks_are_refused(press_small: Press) -> None:
    stated = Stated(flags=("n_heads=8", "enc_in=7", "embed=fixed"))
    with pytest.raises(HyperParameterError, match="embed: the network was trained with 'fixed'"):
        press_small(data=DataOptions(scaler="none", freq="h"), stated=stated)


def test_the_wrong_network_is_told_from_the_wrong_sizes(press_small: Press, official: Any, checkpoint: Any) -> None:
    with pytest.raises(CheckpointFileError, match="is a checkpoint of card, not of itransformer"):
        press_small(checkpoint=checkpoint(official("card")))


def test_a_missing_tensor_is_named(press_small: Press, official: Any, checkpoint: Any, home: Path) -> None:
    state = official("itransformer")
    del state["encoder.norm.bias"]
    with pytest.raises(CheckpointFileError, match=r"encoder\.norm\.bias"):
        press_small(checkpoint=checkpoint(state))
    assert stored(home) == []


def test_an_unexpected_tensor_is_named(press_small: Press, official: Any, checkpoint: Any) -> None:
    state = official("itransformer") | {"extra.weight": torch.zeros(1)}
    with pytest.raises(CheckpointFileError, match=r"extra\.weight"):
        press_small(checkpoint=checkpoint(state))


@pytest.mark.parametrize("name", ["Upper", "-x", "a" * 64, "a/b", "latest", ""])
def test_a_name_the_store_cannot_hold_is_misuse(press_small: Press, name: str) -> None:
    with pytest.raises(OptionError, match="--name"):
        press_small(name=name)


def test_an_unknown_architecture_is_misuse(small_job: Job, home: Path) -> None:
    with pytest.raises(OptionError, match="expected one of arm, card, dlinear, itransformer"):
        press(replace(small_job(), architecture="prophet"))


def test_evaluation_without_test_rows_is_misuse(press_small: Press, home: Path) -> None:
    with pytest.raises(OptionError, match="--evaluate needs"):
        press_small(evaluate=True, data=DataOptions(data=ETTH1, split="0:8640"))
    assert stored(home) == []


def test_steps_report_their_progress(small_job: Job, home: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    press(small_job(), lambda *step: seen.append(step))
    assert [step for step, _, _ in seen[:2]] == ["read the checkpoint", "read the data"]
    assert seen[-1][1] == seen[-1][2]


def test_the_manifest_explains_itself(press_small: Press) -> None:
    press_small()
    manifest = open_artifact("small").manifest
    assert manifest.paper.venue == "ICLR 2024"
    assert manifest.official.repository == "thuml/iTransformer"
    assert [(t.name, t.dtype, t.shape) for t in manifest.signature.inputs] == [
        ("history", "FP32", ["batch", 96, 7]),
        ("timestamps", "INT64", ["batch", 96]),
    ]
    assert [(t.name, t.shape) for t in manifest.signature.outputs] == [("forecast", ["batch", 96, 7])]
    assert manifest.hyper_parameter_origins["n_heads"] == "itransformer_m7_96_96_marks.json"
    assert re.match("scaler fitted on rows 0:8640 of ETTh1.csv", manifest.source.notes[0])
