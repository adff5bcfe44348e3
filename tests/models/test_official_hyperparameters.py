"""Official hyper-parameters and directory names: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

from typing import Any

import pytest
from forecasters import SMALL

from models.forecasting.architecture import ConfigError
from models.forecasting.registry import UnknownArchitectureError, architecture

ITRANSFORMER_SETTING = "ETTh1_96_96_iTransformer_ETTh1_M_ft96_sl48_ll96_pl256_dm8_nh2_el1_dl256_df1_fctimeF_ebTrue_dtExp_projection_0"  # fmt: skip # noqa: E501
CARD_SETTING = "long_term_forecast_ETTh1_96_96_CARD_ETTh1_ftM_sl96_ll48_pl96_dm16_nh2_el2_dl1_df32_fc3_ebtimeF_dtTrue_Exp_0"  # fmt: skip # noqa: E501


def refusal(name: str, **changes: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        architecture(name).parse_config(SMALL[name] | changes)
    return caught.value


@pytest.mark.parametrize("name", SMALL)
def test_what_a_manifest_records_gives_the_same_configuration_back(name: str) -> None:
    parse = architecture(name).parse_config
    config = parse(SMALL[name])
    assert parse(config.official()) == config
    assert (config.look_back, config.horizon, config.variates) == tuple(
        SMALL[name][field] for field in ("seq_len", "pred_len", "enc_in")
    )


@pytest.mark.parametrize("name", SMALL)
def test_official_options_without_effect_are_ignored(name: str) -> None:
    extra = {
        "embed": "fixed",
        "factor": 3,
        "class_strategy": "cls_token",
        "freq": "t",
        "dropout": 0.3,
        "variant": "l96",
    }
    parse = architecture(name).parse_config
    assert parse(SMALL[name] | extra | {"output_attention": True, "label_len": 48}) == parse(SMALL[name])


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("field", ["seq_len", "pred_len", "enc_in", "d_model", "n_heads", "e_layers", "d_ff"])
def test_a_missing_size_is_named(name: str, field: str) -> None:
    error = refusal(name, **{field: None})
    assert error.field == field
    assert str(error).startswith(f"{field}: missing, expected a whole number >= 1. ")


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "many", [8]])
def test_a_size_that_is_no_whole_number_is_named_with_its_value(value: object) -> None:
    error = refusal("itransformer", d_model=value)
    assert (error.field, error.value) == ("d_model", value)
    assert error.remedy


@pytest.mark.parametrize("value", [16, 16.0, "16"])
def test_a_size_may_come_from_a_flag_a_json_or_a_program(value: object) -> None:
    assert architecture("card").parse_config(SMALL["card"] | {"d_model": value}) == architecture("card").parse_config(SMALL["card"])  # fmt: skip # noqa: E501


@pytest.mark.parametrize(("word", "on"), [(1, True), (0, False), (True, True), ("False", False), ("1", True)])
def test_switches_are_read_in_every_official_spelling(word: object, on: bool) -> None:
    config = architecture("itransformer").parse_config(SMALL["itransformer"] | {"use_norm": word})
    assert config.official()["use_norm"] == int(on)


def test_an_activation_word_the_official_code_would_silently_replace_is_refused() -> None:
    error = refusal("itransformer", activation="ReLU")
    assert 'got \'ReLU\', expected "gelu" or "relu"' in str(error)
    assert "official code runs GELU" in error.remedy


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"d_model": 18}, "n_heads", "a divisor of d_model = 18"),
        ({"merge_size": 3}, "merge_size", "a divisor of n_heads = 4"),
        ({"seq_len": 15}, "patch_len", "at most seq_len = 15"),
        ({"seq_len": 1, "patch_len": 1}, "seq_len", "2 or more"),
        ({"alpha": 1.5}, "alpha", "a number between 0 and 1"),
        ({"alpha": "half"}, "alpha", "a number between 0 and 1"),
        ({"use_statistic": "maybe"}, "use_statistic", "0 or 1 (or true or false)"),
        ({"task_name": "imputation"}, "task_name", '"long_term_forecast" or "short_term_forecast"'),
    ],
)
def test_card_settings_that_cannot_work_are_explained(changes: dict[str, Any], field: str, expected: str) -> None:
    error = refusal("card", **changes)
    assert (error.field, error.expected) == (field, expected)


def test_the_official_electricity_setting_that_crashes_officially_is_refused_with_the_reason() -> None:
    error = refusal("card", d_model=128, n_heads=8, merge_size=16)
    assert error.field == "merge_size"
    assert "official code cannot run this either" in error.remedy


def test_itransformer_labels_are_read_by_position_because_they_are_shifted() -> None:
    read = architecture("itransformer").config_from_directory(ITRANSFORMER_SETTING)
    assert read == {
        "seq_len": 96, "label_len": 48, "pred_len": 96, "d_model": 256, "n_heads": 8, "e_layers": 2,
        "d_layers": 1, "d_ff": 256, "factor": 1,
    }  # fmt: skip


def test_card_labels_are_read_as_they_stand() -> None:
    read = architecture("card").config_from_directory(f"checkpoints/{CARD_SETTING}/checkpoint.pth")
    assert read == {
        "seq_len": 96, "label_len": 48, "pred_len": 96, "d_model": 16, "n_heads": 2, "e_layers": 2,
        "d_layers": 1, "d_ff": 32, "task_name": "long_term_forecast",
    }  # fmt: skip


@pytest.mark.parametrize("data", ["custom", "my_own_data_v2", "PEMS03", "ft_sl_96"])
@pytest.mark.parametrize(
    "place", ["{}", "checkpoints/{}/checkpoint.pth", "/data/run 1/{}/", "runs\\{}\\checkpoint.pth"]
)
def test_directories_are_found_in_any_path_and_behind_any_data_name(data: str, place: str) -> None:
    setting = f"Electricity_720_336_CARD_{data}_ftMS_sl720_ll48_pl336_dm128_nh8_el3_dl1_df256_fc1_ebtimeF_dtTrue_Exp_0"
    read = architecture("card").config_from_directory(place.format(setting))
    assert [read[field] for field in ("seq_len", "pred_len", "d_model", "n_heads", "e_layers", "d_ff")] == [
        720, 336, 128, 8, 3, 256,
    ]  # fmt: skip


def test_rightly_labelled_itransformer_directories_are_read_as_labelled() -> None:
    setting = "x_iTransformer_custom_ftM_sl96_ll48_pl24_dm128_nh8_el2_dl1_df512_expand2_dc4_fc1_ebtimeF_dtTrue_Exp_0"
    read = architecture("itransformer").config_from_directory(setting)
    assert (read["seq_len"], read["pred_len"], read["d_ff"], read["n_heads"]) == (96, 24, 512, 8)


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("itransformer", "checkpoints/best/model.pth"),
        ("card", ITRANSFORMER_SETTING),
        ("itransformer", ITRANSFORMER_SETTING.replace("_pl256", "_plwide")),
    ],
)
def test_directories_that_do_not_fit_are_refused(name: str, directory: str) -> None:
    with pytest.raises(ConfigError) as caught:
        architecture(name).config_from_directory(directory)
    assert caught.value.field == "directory"
    assert "flags or JSON" in caught.value.remedy


def test_an_unknown_architecture_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownArchitectureError, match="expected one of arm, card, dlinear, itransformer"):
        architecture("informer")
