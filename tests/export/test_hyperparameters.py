"""Hyper-parameters: flags before JSON before directory name before tensors, and no source against the tensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from export.checkpoints import read_checkpoint
from export.errors import CheckpointFileError, HyperParameterError, OptionError
from export.hyperparameters import HyperParameters, Stated, gather, parse_flag
from models.forecasting.registry import architecture

SHIFTED = "ETTh1_96_96_iTransformer_ETTh1_M_ft96_sl48_ll96_pl64_dm8_nh2_el1_dl64_df1_fctimeF_ebTrue_dtExp_projection_0"
LABELLED = "long_term_forecast_ETTh1_96_96_CARD_ETTh1_ftM_sl96_ll48_pl96_dm16_nh2_el2_dl1_df32_fc3_ebtimeF_dtTrue_Exp_0"
Official = Callable[[str], dict[str, Tensor]]
Gather = Callable[..., HyperParameters]


@pytest.fixture
def gathered(checkpoint: Callable[..., Path], official: Official) -> Gather:
    """gathered("card", folder=..., flags=...) -> what is known about that golden checkpoint."""

    def make(name: str = "itransformer", folder: str = "run", columns: int | None = 7, **said: Any) -> HyperParameters:
        found = read_checkpoint(checkpoint(official(name), folder))
        return gather(architecture(name), found, Stated(**said), columns)

    return make


def write(tmp_path: Path, document: Any) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(document))
    return tmp_path / "config.json"


def test_the_shifted_labels_of_itransformers_directory_are_read_right(gathered: Gather) -> None:
    found = gathered(folder=SHIFTED)
    expected = {"seq_len": 96, "pred_len": 96, "d_model": 64, "n_heads": 8, "e_layers": 2, "d_ff": 64}
    assert expected.items() <= found.official.items()
    assert {found.origins[name] for name in expected} == {"directory name"}


def test_cards_labels_are_right_as_they_are(gathered: Gather) -> None:
    found = gathered("card", folder=LABELLED)
    expected = {"seq_len": 96, "pred_len": 96, "d_model": 16, "n_heads": 2, "e_layers": 2, "d_ff": 32}
    assert expected.items() <= found.official.items()


def test_a_directory_name_can_be_given_apart_from_the_file(gathered: Gather) -> None:
    assert gathered(settings=f"somewhere/{SHIFTED}").official["n_heads"] == 8


def test_flags_win_over_json_and_json_over_the_directory(gathered: Gather, tmp_path: Path) -> None:
    config = write(tmp_path, {"n_heads": 4, "activation": "relu", "enc_in": 9})
    found = gathered(folder=SHIFTED, config=config, flags=("n_heads=16",))
    assert (found.official["n_heads"], found.origins["n_heads"]) == (16, "flag")
    assert (found.official["activation"], found.origins["activation"]) == ("relu", "config.json")
    assert (found.official["enc_in"], found.origins["enc_in"]) == (9, "config.json")
    assert (found.official["e_layers"], found.origins["e_layers"]) == (2, "directory name")
    assert (found.official["use_norm"], found.origins["use_norm"]) == (1, "default")


def test_sizes_left_out_are_told_by_tensors_and_data(gathered: Gather) -> None:
    found = gathered(flags=("n_heads=8",))
    assert (found.official["d_model"], found.origins["d_model"]) == (64, "tensor shapes")
    assert (found.official["enc_in"], found.origins["enc_in"]) == (7, "data columns")


def test_the_json_beside_a_bundled_checkpoint_is_understood(gathered: Gather, tmp_path: Path) -> None:
    config = write(tmp_path, {"system": "itransformer", "config": {"n_heads": 8}, "data": {}})
    assert gathered(config=config).official["n_heads"] == 8


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"flags": ("n_heads=8", "d_model=128")}, r"d_model: 128 \(flag\) contradicts .* have 64"),
        ({"flags": ("n_heads=8", "e_layers=3")}, r"e_layers: 3 \(flag\)"),
        ({"settings": SHIFTED.replace("pl64", "pl512")}, r"d_model: 512 \(directory name\)"),
        ({}, "n_heads: missing"),
        ({"flags": ("n_heads=eight",)}, "n_heads: got 'eight'"),
    ],
)
def test_what_cannot_be_is_refused_with_value_and_source(gathered: Gather, said: Any, words: str) -> None:
    with pytest.raises(HyperParameterError, match=words):
        gathered(**said)


def test_a_number_written_as_text_contradicts_nothing(gathered: Gather, tmp_path: Path) -> None:
    config = write(tmp_path, {"n_heads": 8, "seq_len": "96", "d_model": 64.0})
    assert gathered(config=config).official["seq_len"] == 96


def test_a_settings_name_that_says_nothing_is_misuse(gathered: Gather) -> None:
    with pytest.raises(OptionError, match="--settings"):
        gathered(settings="my-run")


@pytest.mark.parametrize(("document", "words"), [([1], "no mapping"), ("x", "no mapping")])
def test_a_json_without_a_mapping_is_refused(gathered: Gather, tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(HyperParameterError, match=words):
        gathered(config=write(tmp_path, document))


def test_a_damaged_json_is_refused(gathered: Gather, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(HyperParameterError, match="is not JSON"):
        gathered(config=tmp_path / "c.json")


def test_missing_tensors_are_named(checkpoint: Callable[..., Path], official: Official) -> None:
    state = official("itransformer")
    del state["projector.weight"]
    with pytest.raises(CheckpointFileError, match=r"projector\.weight"):
        gather(architecture("itransformer"), read_checkpoint(checkpoint(state)), Stated(flags=("n_heads=8",)), 7)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=0.5", 0.5), ("a=true", True), ("a=False", False), ("a=gelu", "gelu"), ("a=", "")],
)
def test_flags_are_read_as_what_they_look_like(text: str, value: Any) -> None:
    assert parse_flag(text) == ("a", value)


@pytest.mark.parametrize("text", ["seq_len", "=96"])
def test_a_flag_without_name_or_value_is_misuse(text: str) -> None:
    with pytest.raises(OptionError, match="not NAME=VALUE"):
        parse_flag(text)
