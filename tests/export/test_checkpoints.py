"""Official checkpoints: every shape people have is read, everything else is refused in words and never executed.

`pickle` is imported to write the files that must be refused.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from export.checkpoints import read_checkpoint
from export.errors import CheckpointFileError

STATE = {"layer.weight": torch.tensor([[1.0, 2.0]]), "layer.bias": torch.tensor([3.0])}
Checkpoint = Callable[..., Path]


class Trap:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def prefixed(prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in STATE.items()}


@pytest.mark.parametrize(
    "content",
    [
        STATE,
        {"model": STATE},
        {"model": STATE, "model_optim": {"state": {}}, "epoch": 3},
        {"state_dict": STATE},
        {"model": {"state_dict": STATE}},
        prefixed("module."),
        prefixed("_orig_mod."),
        prefixed("module._orig_mod.module."),
        {"state_dict": prefixed("_orig_mod.module.")},
    ],
)
def test_wrappers_and_prefixes_are_taken_off(checkpoint: Checkpoint, content: Any) -> None:
    found = read_checkpoint(checkpoint(content))
    assert found.state.keys() == STATE.keys()
    assert all(torch.equal(found.state[name], STATE[name]) for name in STATE)
    assert (found.source.format, found.source.tensors, found.source.file) == ("pth", 2, "checkpoint.pth")


def test_the_older_torch_format_is_read(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert read_checkpoint(tmp_path / "old.pth").state.keys() == STATE.keys()


def test_safetensors_are_read_whatever_the_file_is_called(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "weights.bin")
    found = read_checkpoint(tmp_path / "weights.bin")
    assert found.source.format == "safetensors"
    assert found.state.keys() == STATE.keys()


def test_a_prefix_before_some_names_only_is_left_to_the_network(checkpoint: Checkpoint) -> None:
    mixed = {"module.a": torch.zeros(1), "b": torch.zeros(1)}
    assert read_checkpoint(checkpoint(mixed)).state.keys() == mixed.keys()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_float_types_become_float32_and_the_manifest_says_so(checkpoint: Checkpoint, dtype: torch.dtype) -> None:
    found = read_checkpoint(checkpoint({name: tensor.to(dtype) for name, tensor in STATE.items()}))
    assert all(tensor.dtype == torch.float32 for tensor in found.state.values())
    assert found.source.notes == [f"2 {str(dtype).removeprefix('torch.')} tensors converted to float32"]


def test_complex_weights_stay_complex(checkpoint: Checkpoint) -> None:
    weight = torch.complex(torch.rand(2), torch.rand(2))
    found = read_checkpoint(checkpoint({"mix": weight, "wide": weight.to(torch.complex128)}))
    assert torch.equal(found.state["mix"], weight)
    assert torch.equal(found.state["wide"], weight)
    assert found.source.notes == ["1 complex128 tensors converted to complex64"]


def test_batch_norm_counters_stay_integers(checkpoint: Checkpoint) -> None:
    counter = {"norm.num_batches_tracked": torch.tensor(7)}
    assert read_checkpoint(checkpoint(STATE | counter)).state["norm.num_batches_tracked"].dtype == torch.int64


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "empty"),
        ([1, 2], "holds a list, expected a state dict"),
        (torch.zeros(2), "holds a Tensor"),
        ({"a": "text"}, "entry a is a str, expected a tensor"),
        ({1: torch.zeros(1)}, "key 1"),
        ({"a": torch.zeros(2, dtype=torch.int32)}, "tensor a is int32, expected floating-point"),
        ({"a": torch.zeros(2, dtype=torch.bool)}, "tensor a is bool"),
        ({"a": torch.zeros(2, dtype=torch.complex64) + torch.nan}, "tensor a holds NaN"),
        ({"a": torch.eye(3).to_sparse()}, "tensor a is a sparse"),
        ({"a": torch.tensor([1.0, float("nan")])}, "tensor a holds NaN"),
        ({"a": torch.tensor([1e300], dtype=torch.float64)}, "tensor a holds NaN or infinite values"),
    ],
)
def test_contents_that_are_no_weights_are_refused_by_name(checkpoint: Checkpoint, content: Any, words: str) -> None:
    with pytest.raises(CheckpointFileError, match=words):
        read_checkpoint(checkpoint(content))


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_is_named_and_never_run(tmp_path: Path, zipped: bool) -> None:
    trap = tmp_path / "sprung"
    torch.save({"weight": Trap(trap)}, tmp_path / "c.pth", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointFileError, match=r"code in it: it asks for (posix|nt)\.mkdir") as refusal:
        read_checkpoint(tmp_path / "c.pth")
    assert "torch.save(model.state_dict()" in refusal.value.hint
    assert not trap.exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_plain_pickle_is_disassembled_not_run(tmp_path: Path, protocol: int) -> None:
    trap = tmp_path / "sprung"
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(Trap(trap), protocol=protocol))
    with pytest.raises(CheckpointFileError, match=r"it asks for (posix|nt)\.mkdir"):
        read_checkpoint(tmp_path / "c.pkl")
    assert not trap.exists()


def test_a_pickle_of_plain_numbers_is_no_checkpoint_either(tmp_path: Path) -> None:
    (tmp_path / "c.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CheckpointFileError, match="a plain pickle, not written"):
        read_checkpoint(tmp_path / "c.pkl")


def test_a_whole_module_instead_of_its_state_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointFileError, match=r"asks for torch\.nn\.modules\.linear\.Linear"):
        read_checkpoint(checkpoint(torch.nn.Linear(2, 1)))


def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "c.pt", "w") as archive:
        for member in ("c/data.pkl", "c/constants.pkl", "c/code/__torch__.py"):
            archive.writestr(member, b"x")
    with pytest.raises(CheckpointFileError, match="TorchScript program"):
        read_checkpoint(tmp_path / "c.pt")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"loss 0.38\n", "a text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (bytes(range(200, 256)), "unknown format"),
        (b"PK\x03\x04" + b"\0" * 40, "cut off"),
        ((16).to_bytes(8, "little") + b"{not a header   ", "damaged safetensors"),
    ],
)
def test_other_files_are_told_apart(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "c.pth").write_bytes(content)
    with pytest.raises(CheckpointFileError, match=words):
        read_checkpoint(tmp_path / "c.pth")


def test_a_file_cut_off_while_copying_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    whole = checkpoint(STATE).read_bytes()
    (tmp_path / "c.pth").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointFileError, match="cut off"):
        read_checkpoint(tmp_path / "c.pth")


def test_a_folder_is_answered_with_the_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointFileError, match="is a directory") as refusal:
        read_checkpoint(tmp_path)
    assert "checkpoint.pth" in refusal.value.hint
