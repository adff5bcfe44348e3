"""Official settings directories: `checkpoints/<setting>/checkpoint.pth` keeps its hyper-parameters in `<setting>`.

The setting ends in a chain of labelled values, here from CARD and from iTransformer:

    ..._CARD_ETTh1_ftM_sl96_ll48_pl96_dm16_nh2_el2_dl1_df32_fc3_...        every label names its own value
    ..._ETTh1_M_ft96_sl48_ll96_pl256_dm8_nh2_el1_dl256_df1_fctimeF_...     every value stands one label too far left

iTransformer's format string has one placeholder more than labels, so `features` landed in front of `ft` and the rest
moved up: ft holds seq_len, dl holds d_ff, df holds factor. `ft` tells the two apart: letters (M, S, MS) or a number.
Names in front of the chain (model id, data) may hold anything, underscores included; what follows `df` is not read.
"""

from __future__ import annotations

import re

from models.forecasting.architecture import ConfigError

LABELS = ("ft", "sl", "ll", "pl", "dm", "nh", "el", "dl", "df")
TRUE_FIELDS = ("seq_len", "label_len", "pred_len", "d_model", "n_heads", "e_layers", "d_layers", "d_ff", "factor")
TASKS = ("long_term_forecast", "short_term_forecast", "imputation", "anomaly_detection", "classification")

_CHAIN = re.compile("_" + "_".join(rf"{label}(?P<{label}>[^_]+)" for label in LABELS) + r"(?=_|$)")
_REMEDY = "Give the hyper-parameters as flags or JSON instead."


def read_shifted(directory: str) -> dict[str, int]:
    """Hyper-parameters of an iTransformer setting, by position; a chain that is labelled rightly is read as such."""
    setting, chain = _find(directory)
    if chain["ft"] in {"M", "S", "MS"}:
        return read_labelled(directory)
    values = [_number(setting, label, chain[label]) for label in LABELS]
    return dict(zip(TRUE_FIELDS, values, strict=True))


def read_labelled(directory: str) -> dict[str, int]:
    """Hyper-parameters of a setting whose labels are right. `factor` stands behind the chain and has no effect."""
    setting, chain = _find(directory)
    if chain["ft"] not in {"M", "S", "MS"}:
        expected = "ftM, ftS or ftMS: a number there means labels shifted by one, as iTransformer writes them"
        raise ConfigError("directory", setting, expected, "Is this a checkpoint of another architecture? " + _REMEDY)
    return {field: _number(setting, label, chain[label]) for field, label in zip(TRUE_FIELDS, LABELS[1:], strict=False)}


def task_of(directory: str) -> str | None:
    """The official task a setting starts with, e.g. "long_term_forecast"; None where the program does not write it."""
    setting, _ = _find(directory)
    return next((task for task in TASKS if setting.startswith(f"{task}_")), None)


def _find(directory: str) -> tuple[str, dict[str, str]]:
    """The innermost part of a path that holds the chain, and the chain."""
    for part in reversed(re.split(r"[/\\]+", directory)):
        matches = list(_CHAIN.finditer(part))
        if matches:
            return part, matches[-1].groupdict()
    expected = "a settings directory with ..._ft.._sl.._ll.._pl.._dm.._nh.._el.._dl.._df.._..."
    raise ConfigError("directory", directory, expected, _REMEDY)


def _number(setting: str, label: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ConfigError("directory", setting, f'a whole number >= 1 after "{label}", not "{text}"', _REMEDY)
    return int(text)
