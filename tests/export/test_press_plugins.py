"""Pressing LIFT and ARM, and the networks they are put around: official golden weights, ETTh1, real graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from export.artifact import open_artifact
from export.errors import DataError, HyperParameterError, OptionError
from export.evaluate import evaluate
from export.forecast import ForecastJob, Pressed, load_network, press
from export.forecast_data import DataOptions
from export.hyperparameters import Stated
from export.runner import artifact_runner, module_runner
from export.scaling import Split
from models.forecasting.registry import ARCHITECTURES
from models.forecasting.spec import ForecastSpec
from pressroom.export import Architecture

ROOT = Path(__file__).parents[2]
GOLDEN, ETTH1 = ROOT / "tests" / "golden", ROOT / "data" / "ett" / "ETTh1.csv"
ETT = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
Write = Callable[..., Path]


@dataclass(frozen=True)
class Official:
    """A golden case as a checkpoint: system, case, the columns it is given, flags its config lacks."""

    system: str
    case: str
    columns: int
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its artifact."""
        return self.case.replace("_", "-")

    @property
    def state(self) -> dict[str, torch.Tensor]:
        found = load_file(GOLDEN / self.system / f"{self.case}.safetensors")
        return {name.removeprefix("state."): t for name, t in found.items() if name.startswith("state.")}

    def job(self, write: Write, **changes: Any) -> ForecastJob:
        state = changes.pop("state", None) or self.state
        given: dict[str, Any] = {
            "architecture": self.system,
            "checkpoint": write(state),
            "name": self.system,
            "stated": Stated(config=GOLDEN / self.system / f"{self.case}.json", flags=self.flags),
            "data": DataOptions(data=ETTH1, split="ett-hourly", columns=ETT[: self.columns]),
            "calibration": "none",
        }
        return ForecastJob(**(given | changes))


EXACT = Official("lift", "lift_patchtst_accurate", 5)
LIVE = Official("lift", "lift_dlinear_live", 7, ("estimator=live",))
LIGHT = Official("lift", "lift_lightmts_live", 6, ("estimator=live",))
ARM = Official("arm", "arm_default_192_24", 5)
ARM_AROUND = Official("arm", "arm_dlinear_160_16", 5)


def backbone_job(write: Write) -> ForecastJob:
    """The DLinear inside LIVE, on its own."""
    own = {n.removeprefix("backbone."): t for n, t in LIVE.state.items() if n.startswith("backbone.")}
    stated = Stated(flags=("seq_len=96", "pred_len=48"))
    data = DataOptions(data=ETTH1, split="ett-hourly")
    return ForecastJob(
        architecture="dlinear",
        checkpoint=write(own, "own"),
        name="inner",
        stated=stated,
        data=data,
        runtime="torch",
        calibration="none",
    )


@pytest.fixture(scope="module")
def graphs(llm_store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pressed]:
    """Every case as an ONNX artifact of its own name, pressed once for the file."""

    def write(state: dict[str, torch.Tensor]) -> Path:
        path = tmp_path_factory.mktemp("official") / "checkpoint.pth"
        torch.save(state, path)
        return path

    return {one.name: press(one.job(write, name=one.name)) for one in (EXACT, LIVE, LIGHT, ARM, ARM_AROUND)}


@pytest.mark.parametrize("official", [EXACT, LIVE, LIGHT, ARM, ARM_AROUND], ids=lambda one: one.name)
def test_official_plugins_become_graphs_with_certificates(graphs: dict[str, Pressed], official: Official) -> None:
    certificate = graphs[official.name].certificate
    assert open_artifact(official.name).manifest.runtime.kind == "onnx"
    assert certificate["verdict"] == "ok"
    assert {case["batch"] for case in certificate["cases"]} == {1, 2, 7}
    names = {case["name"] for case in certificate["cases"]}
    assert names == {"batch-1", "batch-7", "constant-column", "large-offset", "nearly-flat"}


def test_a_stored_graph_gives_the_official_answer(graphs: dict[str, Pressed]) -> None:
    """The golden case's own input through the artifact's graph."""
    tensors = load_file(GOLDEN / "lift" / f"{EXACT.case}.safetensors")
    history = tensors["input.history"].numpy()
    windows = np.stack([history[b : b + 128] for b in range(4)])
    answer = artifact_runner(open_artifact(EXACT.name))({"x_enc": windows})
    np.testing.assert_allclose(answer, tensors["output.forecast"].numpy(), atol=2e-4, rtol=1e-4)


def test_the_exact_estimator_s_history_is_explained(graphs: dict[str, Pressed]) -> None:
    manifest = open_artifact(EXACT.name).manifest
    spec = ForecastSpec.from_settings(manifest.settings)
    assert (spec.look_back, spec.horizon, spec.takes_marks) == (128, 24, False)
    assert "the last 64 steps with every window up to 64 steps before them" in manifest.pipeline[0]
    assert manifest.signature.inputs[0].shape == ["batch", 128, 5]


def test_arm_s_calendar_goes_over_the_horizon(graphs: dict[str, Pressed]) -> None:
    manifest = open_artifact(ARM.name).manifest
    spec = ForecastSpec.from_settings(manifest.settings)
    assert (spec.marks_ahead, spec.mark_steps, spec.marks_width) == (True, 216, 4)
    inputs = {t.name: (t.shape, t.optional) for t in manifest.signature.inputs}
    assert inputs == {
        "history": (["batch", 192, 5], False),
        "timestamps": (["batch", 192], False),
        "future_timestamps": (["batch", 24], True),
    }


def test_tensors_arm_never_reads_are_dropped_with_a_note(graphs: dict[str, Pressed]) -> None:
    source = open_artifact(ARM.name).manifest.source
    assert "decoder_post_mkls.convs.2.weight" in source.dropped
    assert f"{len(source.dropped)} official tensors never reach a forecast and were left out" in source.notes


def test_arm_around_another_predictor_reads_no_calendar(graphs: dict[str, Pressed]) -> None:
    spec = ForecastSpec.from_settings(open_artifact(ARM_AROUND.name).manifest.settings)
    assert (spec.marks_ahead, spec.takes_marks) == (False, False)


def test_complex_weights_in_a_pth_are_those_in_pairs(home: Path, checkpoint: Write) -> None:
    state = LIVE.state
    for part in ("weight", "bias"):
        name = f"lead_refiner.mix_layer.{part}"
        state[name] = torch.view_as_complex(state[name].contiguous())
    pairs, complex_ = load_network(LIVE.job(checkpoint)), load_network(LIVE.job(checkpoint, state=state))
    both = zip(pairs.module.state_dict().values(), complex_.module.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in both)


def test_lift_names_the_artifact_it_is_put_around(home: Path, checkpoint: Write) -> None:
    inner = press(backbone_job(checkpoint)).stored
    press(LIVE.job(checkpoint, backbone="inner", runtime="torch"))
    named = open_artifact("lift").manifest.settings["backbone"]
    assert named == {
        "name": "inner",
        "version": "1",
        "digest": inner.digest,
        "architecture": "dlinear",
        "weights": "as pressed",
    }


def test_lift_takes_the_hyper_parameters_of_the_artifact_it_is_put_around(home: Path, checkpoint: Write) -> None:
    press(backbone_job(checkpoint))
    stated = Stated(flags=("estimator=live",))
    hyper = load_network(LIVE.job(checkpoint, backbone="inner:1", stated=stated)).hyper
    assert hyper.official["model"] == "DLinear"
    assert hyper.origins["individual"] == "inner:1"
    assert hyper.origins["seq_len"] == "inner:1"


def test_a_backbone_that_was_tuned_along_is_called_so(home: Path, checkpoint: Write) -> None:
    press(backbone_job(checkpoint))
    state = LIVE.state
    state["backbone.Linear_Trend.bias"] += 0.01
    press(LIVE.job(checkpoint, backbone="inner", state=state, runtime="torch"))
    assert open_artifact("lift").manifest.settings["backbone"]["weights"] == "tuned"


def test_what_cannot_be_the_backbone_is_refused(home: Path, checkpoint: Write) -> None:
    with pytest.raises(OptionError, match="--backbone inner: no artifact inner"):
        press(LIVE.job(checkpoint, backbone="inner"))
    press(backbone_job(checkpoint))
    with pytest.raises(OptionError, match="--backbone is for LIFT around a forecaster"):
        load_network(ARM.job(checkpoint, backbone="inner"))
    with pytest.raises(OptionError, match="inner:1 forecasts 48 steps from 96, this LIFT 24 from 64"):
        load_network(EXACT.job(checkpoint, backbone="inner"))
    press(ARM.job(checkpoint, runtime="torch"))
    with pytest.raises(OptionError, match="arm:1 is a arm; LIFT is served around"):
        load_network(LIVE.job(checkpoint, backbone="arm"))


def test_a_calendar_with_other_marks_than_arm_was_trained_with_is_refused(checkpoint: Write) -> None:
    stated = Stated(config=GOLDEN / "arm" / "arm_default_192_24.json", flags=("freq=d",))
    with pytest.raises(HyperParameterError, match="'d' has 3 calendar marks, the network was trained with 4"):
        load_network(ARM.job(checkpoint, stated=stated))
    without = DataOptions(data=ETTH1, split="ett-hourly", columns=ETT[:5], marks=False)
    with pytest.raises(OptionError, match="--no-marks: arm makes no forecast without the calendar"):
        load_network(ARM.job(checkpoint, data=without))


@pytest.mark.parametrize(
    ("official", "words"),
    [(LIVE, "tells variate states apart by scaled values"), (ARM, "continues its history with zeros")],
    ids=["lift", "arm"],
)
def test_networks_that_see_scaled_values_need_the_scaler(checkpoint: Write, official: Official, words: str) -> None:
    options = DataOptions(scaler="none", freq="h", columns=ETT[: official.columns])
    with pytest.raises(DataError, match=words):
        load_network(official.job(checkpoint, data=options))


def test_errors_are_measured_with_the_horizon_s_marks(checkpoint: Write) -> None:
    """MSE over some test windows, computed again window by window with marks from pandas' calendar."""
    network = load_network(ARM.job(checkpoint))
    table, scaler, run = network.prepared.table, network.spec.scaler, module_runner(network.module)
    assert table is not None
    assert table.stamps is not None
    assert scaler is not None
    split = Split("cut", (0, 8640), (11520, 11520 + 7 + 24))  # eight windows
    found = {m.name: m.value for m in evaluate(run, network.spec, table, split)}

    date = pd.DatetimeIndex(table.stamps.astype("M8[s]"))
    parts = (date.hour / 23, date.day_of_week / 6, (date.day - 1) / 30, (date.day_of_year - 1) / 365)
    marks = (np.stack([np.asarray(part) for part in parts], axis=1) - 0.5).astype(np.float32)
    scaled = scaler.scale(table.values)
    gaps = []
    for first in range(11520, 11528):
        window = {"x_enc": scaled[None, first - 192 : first], "x_mark_enc": marks[None, first - 192 : first + 24]}
        gaps.append(run(window)[0].astype(np.float64) - scaled[first : first + 24])
    assert found["mse"] == pytest.approx(np.square(gaps).mean(), rel=1e-4)
    assert found["mae"] == pytest.approx(np.abs(gaps).mean(), rel=1e-4)


def test_the_help_of_the_command_names_every_network() -> None:
    words = Architecture.__metadata__[0].help
    assert all(name in words for name in ARCHITECTURES)
