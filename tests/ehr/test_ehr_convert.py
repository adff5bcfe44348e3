"""femr 0.1's pickles become plain data, or are refused by name; nothing in them is ever called."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from export.ehr_convert import convert_v0, modern_dictionary
from export.ehr_pickle import read_arrays
from export.ehr_source import read_source
from export.errors import CheckpointFileError, OptionError
from export.golden.case import read_case
from models.motor.checkpoint import translate
from models.motor.network import build
from models.motor.vocabulary import Event, Ontology, Vocabulary

HAIKU = Path(__file__).parents[1] / "golden" / "motor" / "motor_v0_haiku.json"
ENTRIES = [
    {"type": 0, "code_string": "A", "weight": -0.5},
    {"type": 1, "code_string": "B", "val_start": -3.4e38, "val_end": 5.0, "weight": -0.4},
    {"type": 1, "code_string": "B", "val_start": 5.0, "val_end": 3.4e38, "weight": -0.4},
    {"type": 2, "code_string": "C", "text_string": "never", "weight": -0.3},
]
DICTIONARY = {
    "regular": ENTRIES[1:], "ontology_rollup": ENTRIES, "age_stats": {"mean": 60.0, "std": 30.0},
}  # fmt: skip


def nested(state: dict[str, torch.Tensor]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """A flat state dict as Haiku nests it: module -> parameter."""
    made: dict[str, dict[str, Any]] = {}
    for name, tensor in state.items():
        module, _, parameter = name.rpartition("/")
        made.setdefault(module, {})[parameter] = tensor.numpy()
    return made


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    """A femr 0.1 folder made of the golden v0 network."""
    case = read_case(HAIKU)
    folder = tmp_path / "motor-t-base"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.msgpack").write_bytes(msgpack.packb(case.config))
    (folder / "model" / "best").write_bytes(pickle.dumps(nested(case.group("state"))))
    (folder / "dictionary").write_bytes(msgpack.packb(DICTIONARY))
    return folder


def test_a_converted_folder_is_the_same_network(old_folder: Path, tmp_path: Path) -> None:
    written = convert_v0(old_folder, tmp_path / "out")
    assert [path.name for path in written] == ["config.json", "model.safetensors", "dictionary.msgpack"]
    source = read_source(tmp_path / "out")
    assert (source.layout, source.config.unit) == ("v0", 60.0)
    expected = read_case(HAIKU).group("state")
    assert source.state.keys() == expected.keys()
    assert all(torch.equal(source.state[name], expected[name]) for name in expected)
    build(source.config).load_state_dict(translate(source.state, source.config).state, strict=True)


def test_names_of_the_tasks_come_from_the_batch_information(old_folder: Path, tmp_path: Path) -> None:
    info = tmp_path / "batch_info.msgpack"
    codes = [f"SNOMED/{i}" for i in range(6)]
    info.write_bytes(msgpack.packb({"config": {"task": {"survival_dict": {"codes": codes}}}}))
    convert_v0(old_folder, tmp_path / "out", info)
    assert read_source(tmp_path / "out").config.tasks == tuple(codes)


def test_an_existing_file_is_not_replaced(old_folder: Path, tmp_path: Path) -> None:
    convert_v0(old_folder, tmp_path / "out")
    with pytest.raises(OptionError, match="exists"):
        convert_v0(old_folder, tmp_path / "out")


@pytest.mark.parametrize("gone", ["model/best", "model/config.msgpack", "dictionary"])
def test_a_missing_part_is_named(old_folder: Path, tmp_path: Path, gone: str) -> None:
    (old_folder / gone).unlink()
    with pytest.raises(OptionError, match=f"{Path(gone).name} is missing"):
        convert_v0(old_folder, tmp_path / "out")


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_s_arrays_are_read(protocol: int) -> None:
    sent = {
        "a/~/b": {
            "w": np.arange(6, dtype=np.float32).reshape(2, 3),
            "b": np.asfortranarray(np.eye(3, dtype=np.float16)),
        },
        "numbers": [1, -2.5, None, True, (1, 2, 3, 4), "text", b"bytes", 10**20],
    }
    got = read_arrays(pickle.dumps(sent, protocol=protocol))
    for name, array in sent["a/~/b"].items():
        np.testing.assert_array_equal(got["a/~/b"][name], array)
        assert got["a/~/b"][name].dtype == array.dtype
    assert got["numbers"] == [1, -2.5, None, True, [1, 2, 3, 4], "text", b"bytes", 10**20]


def test_arrays_shared_or_of_foreign_byte_order_are_read() -> None:
    array = np.arange(4, dtype=">f4")
    got = read_arrays(pickle.dumps([array, array]))
    np.testing.assert_array_equal(got[0], [0, 1, 2, 3])
    np.testing.assert_array_equal(got[1], got[0])


class Calls:
    """Pickles as a call of whatever it was given."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call


@pytest.mark.parametrize(
    ("harmful", "named"),
    [
        (Calls(print, "called"), r"builtins\.print"),
        (Calls(os.system, "true"), r"posix\.system"),
        (Calls(getattr, "text", "upper"), r"builtins\.getattr"),
        (Calls(np.load, "x"), "numpy"),
        (np.array([Calls(print, "called")], dtype=object), r"builtins\.print|type O8"),
        (Path("x"), "pathlib"),
    ],
)
def test_a_pickle_that_wants_anything_else_is_refused_by_name(
    harmful: Any, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CheckpointFileError, match=named):
        read_arrays(pickle.dumps({"weights": harmful}))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("raw", [b"", b"\x80\x04", b"\x80\x04K\x01", b"}q\x00X", pickle.dumps([1])[:-1] + b"0."])
def test_a_damaged_pickle_is_refused(raw: bytes) -> None:
    with pytest.raises(CheckpointFileError, match=r"damaged|no end|the instruction POP"):
        read_arrays(raw)


def test_every_cut_of_a_pickle_is_refused_in_words() -> None:
    whole = pickle.dumps({"a": {"w": np.ones((2, 2), dtype=np.float32)}}, protocol=4)
    assert pickletools.dis(whole, io.StringIO()) is None
    for length in range(len(whole) - 1):
        with pytest.raises(CheckpointFileError):
            read_arrays(whole[:length])


def test_a_pickle_of_other_things_than_arrays_is_no_checkpoint(old_folder: Path, tmp_path: Path) -> None:
    (old_folder / "model" / "best").write_bytes(pickle.dumps({"module": {"w": "text"}}))
    with pytest.raises(CheckpointFileError, match="module/w"):
        convert_v0(old_folder, tmp_path / "out")


def test_old_dictionaries_speak_of_one_code_s_values_and_of_minutes() -> None:
    made = modern_dictionary(DICTIONARY, 4, hierarchical=True)
    assert made["age_stats"] == {"mean": 3600.0, "std": 1800.0}
    vocabulary = Vocabulary(json.loads(json.dumps(made)), Ontology({"D": ["A"]}))
    when = datetime(2000, 1, 1)
    assert vocabulary.bag(Event(when, "D")) == ((0,), (1.0,))
    assert vocabulary.bag(Event(when, "B", 4.99)) == ((1,), (1.0,))
    assert vocabulary.bag(Event(when, "B", 5.0)) == ((2,), (1.0,))
    assert vocabulary.bag(Event(when, "A", 5.0)) == ((), ())  # bins of another code
    assert vocabulary.bag(Event(when, "C", None, "never")) == ((3,), (1.0,))
    assert len(modern_dictionary(DICTIONARY, 2, hierarchical=False)["vocab"]) == 2


def test_weights_are_written_in_single_precision(old_folder: Path, tmp_path: Path) -> None:
    state = nested(read_case(HAIKU).group("state"))
    halves = {module: {n: a.astype(np.float16) for n, a in parts.items()} for module, parts in state.items()}
    (old_folder / "model" / "best").write_bytes(pickle.dumps(halves))
    convert_v0(old_folder, tmp_path / "out")
    assert {a.dtype for a in load_file(tmp_path / "out" / "model.safetensors").values()} == {np.dtype(np.float32)}
