"""Training recipes of the forecasters on a small made-up csv: the loss falls, an interrupted run ends in the same bits,
and what comes out is a checkpoint of the official layout that can be pressed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from export.checkpoints import read_checkpoint
from export.forecast import ForecastJob, load_network
from export.forecast_data import DataOptions
from export.hyperparameters import Stated
from models.forecasting.batch_norm import ChannelNorm
from models.forecasting.registry import detect
from recipes.forecasting.__main__ import export_command, main, prepare_run, train
from recipes.forecasting.regularise import TrainingNorm
from recipes.forecasting.settings import Settings, SettingsError, read_settings
from recipes.forecasting.train import errors

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"seq_len": 24, "pred_len": 6, "d_model": 8, "n_heads": 2, "e_layers": 1, "d_ff": 16}
NETWORKS: dict[str, dict[str, Any]] = {
    "itransformer": SIZES,
    "card": SIZES | {"patch_len": 8, "stride": 4},
    "dlinear": SIZES,
    "arm": SIZES | {"n_experts": 2},
    "lift": SIZES | {"model": "iTransformer", "backbone_marks": 1, "leader_num": 2, "state_num": 2},
}
PLAN = {
    "epochs": 3, "batch_size": 16, "learning_rate": 0.01, "schedule": "cosine", "patience": 9, "seed": 7,
    "epoch_steps": 6,
}  # fmt: skip
Make = Callable[..., Settings]


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 hours of three columns with a daily rhythm, one of them two hours behind another."""
    hours = np.arange(402)
    wave = np.sin(hours * 2 * np.pi / 24) + np.random.default_rng(3).normal(0, 0.1, 402)
    columns = {"lead": 5 + wave[2:], "behind": 50 + 20 * wave[:-2], "own": np.cos(hours[2:] / 9)}
    path = tmp_path_factory.mktemp("data") / "small.csv"
    frame = pd.DataFrame(columns, index=pd.date_range("2024-01-01", periods=400, freq="h", name="date"))
    frame.to_csv(path)
    return path


@pytest.fixture
def make(csv: Path, tmp_path: Path) -> Make:
    """make("card", network={...}, epochs=2) -> settings as a file would give them."""

    def write(architecture: str, *, network: dict[str, Any] | None = None, **plan: Any) -> Settings:
        top = {"name": f"small-{architecture}", "architecture": architecture}
        if "backbone" in plan:
            top["backbone"] = str(plan.pop("backbone"))
        sections = {
            "data": {"csv": str(csv), "split": "custom"},
            "network": NETWORKS[architecture] | (network or {}),
            "training": PLAN | plan,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in top.items()]
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
        path = tmp_path / f"{architecture}.toml"
        path.write_text("\n".join(lines))
        return read_settings(path)

    return write


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(folder / "checkpoint.pth").state


@pytest.mark.parametrize("architecture", NETWORKS)
def test_the_loss_falls_and_the_checkpoint_can_be_pressed(make: Make, tmp_path: Path, architecture: str) -> None:
    settings = make(architecture)
    document = train(settings, tmp_path / "run")
    losses = [epoch["train"] for epoch in document["training"]["history"]]
    assert losses[-1] < 0.9 * losses[0]
    assert detect(weights(tmp_path / "run")) == architecture
    job = ForecastJob(
        architecture=architecture,
        checkpoint=tmp_path / "run" / "checkpoint.pth",
        name="small",
        stated=Stated(config=tmp_path / "run" / "checkpoint.json"),
        data=DataOptions(data=settings.data.csv, split="custom"),
    )
    network = load_network(job)
    _, _, run = prepare_run(settings, tmp_path / "elsewhere")
    run.network.load_state_dict(network.module.state_dict(), strict=False)
    test = errors(run, "test", "mse", "mae")
    assert document["metrics_test"] == {name: pytest.approx(value, abs=1e-6) for name, value in test.items()}


@pytest.mark.parametrize(
    ("architecture", "plan"),
    [("card", {"dropout": 0.3, "loss": "decaying-mae"}), ("arm", {"weight_decay": 0.1, "drop_columns": 0.5})],
    ids=["card", "arm"],
)
def test_a_resumed_run_ends_in_the_same_bits(
    make: Make, tmp_path: Path, architecture: str, plan: dict[str, Any]
) -> None:
    settings = make(architecture, **plan)
    whole = train(settings, tmp_path / "whole")
    train(settings, tmp_path / "parts", until=1)
    train(settings, tmp_path / "parts", until=2)
    assert train(settings, tmp_path / "parts") == whole
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_lift_starts_where_its_backbone_stands_and_leaves_it_alone_if_told(
    make: Make, tmp_path: Path, rate: float
) -> None:
    train(make("itransformer"), tmp_path / "inner")
    inner = tmp_path / "inner" / "checkpoint.pth"
    settings = make("lift", backbone=inner, backbone_rate=rate, network={"seq_len": 24})
    document = train(settings, tmp_path / "lifted")
    _, _, alone = prepare_run(make("itransformer"), tmp_path / "nowhere")
    alone.network.load_state_dict(load_inner(inner))
    alone.windows.parts["validation"] = prepare_run(settings, tmp_path)[2].windows.parts["validation"]
    start = errors(alone, "validation", "mse", "mae", "loss")
    assert document["validation_of_backbone"] == {name: pytest.approx(v, abs=2e-6) for name, v in start.items()}

    before, after = weights(tmp_path / "inner"), weights(tmp_path / "lifted")
    same = [torch.equal(before[name], after[f"backbone.{name}"]) for name in before]
    assert all(same) if rate == 0.0 else not any(same)


def test_weights_that_are_no_better_than_the_backbone_are_not_kept(make: Make, tmp_path: Path) -> None:
    train(make("itransformer"), tmp_path / "inner")
    inner = tmp_path / "inner" / "checkpoint.pth"
    wild = make("lift", backbone=inner, learning_rate=30.0, schedule="constant", network={"seq_len": 24})
    document = train(wild, tmp_path / "lifted")
    assert document["training"]["kept_epoch"] == 0
    before, after = weights(tmp_path / "inner"), weights(tmp_path / "lifted")
    assert all(torch.equal(before[name], after[f"backbone.{name}"]) for name in before)


def load_inner(path: Path) -> dict[str, torch.Tensor]:
    from models import itransformer

    config = itransformer.ARCHITECTURE.parse_config(SIZES | {"enc_in": 3})
    return itransformer.ARCHITECTURE.translate(read_checkpoint(path).state, config).state


def test_the_training_norm_is_torchs_batch_norm_and_the_networks_norm() -> None:
    ours, theirs, plain = TrainingNorm(5), nn.BatchNorm1d(5), ChannelNorm(5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(4, 7, 5, generator=generator) * 3 + 1
        torch.testing.assert_close(ours.train()(x), theirs(x.flatten(0, 1)).reshape(x.shape))
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    plain.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours.eval()(x), plain(x), rtol=0, atol=0)


def test_dropout_is_there_in_training_and_gone_in_evaluation(make: Make, tmp_path: Path) -> None:
    _, _, run = prepare_run(make("itransformer", dropout=0.5), tmp_path)
    rows = run.windows.parts["train"][:2]
    first, second = (run.forecast(rows)[0] for _ in range(2))
    assert not torch.equal(first, second)
    run.network.eval()
    assert torch.equal(run.forecast(rows)[0], run.forecast(rows)[0])


def test_windows_do_not_reach_over_their_part(make: Make, tmp_path: Path) -> None:
    windows = prepare_run(make("lift"), tmp_path)[2].windows
    assert windows.split.train == (0, 280)
    assert {name: (int(rows[0]), int(rows[-1])) for name, rows in windows.parts.items()} == {
        "train": (48, 274),  # the exact estimator reads 48 hours
        "validation": (280, 314),
        "test": (320, 394),
    }


@pytest.mark.parametrize("file", sorted((ROOT / "recipes" / "forecasting").glob("*.toml")), ids=lambda path: path.stem)
def test_the_files_that_come_along_can_be_read(file: Path) -> None:
    settings = read_settings(file)
    assert settings.data.csv.exists()
    assert settings.backbone is None or settings.backbone.exists()
    around = {"lift_itransformer": " --backbone itransformer-etth1", "lift_card": " --backbone card-etth1"}
    assert export_command(settings, Path("out")).endswith(f"--split ett-hourly{around.get(file.stem, '')} --evaluate")


def test_a_name_nobody_knows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        'name = "x"\narchitecture = "card"\n[data]\ncsv = "a.csv"\nsplit = "custom"\n[training]\nepoch = 3\n'
    )
    with pytest.raises(SettingsError, match="training: 'epoch' is not known; known are backbone_rate"):
        read_settings(path)
    assert main([str(path), "--out", str(tmp_path / "out")]) == 2
    assert "error: training: 'epoch' is not known" in capsys.readouterr().err


def test_a_missing_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('name = "x"\narchitecture = "card"\n[data]\ncsv = "a.csv"\n[training]\nepochs = 3\n')
    with pytest.raises(SettingsError, match="data: missing 'split'"):
        read_settings(path)


def test_the_command_prints_how_to_press(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make("dlinear", epochs=1)
    assert main([str(tmp_path / "dlinear.toml"), "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "best epoch 1 of 1: test MSE" in printed
    assert f"pressroom export forecast dlinear {tmp_path / 'run' / 'checkpoint.pth'} --name small-dlinear" in printed
