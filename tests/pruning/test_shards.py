"""Files written tensor by tensor are what the safetensors library reads, in as many shards as the limit asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from export.llm_shards import Placed, write_shards

TENSORS = {
    "b.weight": torch.randn(3, 5).bfloat16(),
    "a.weight": torch.randn(7, 2),
    "a.bias": torch.randn(2).half(),
    "order": torch.arange(9),
    "scale": torch.tensor(2.5),
}


@pytest.fixture
def placed(tmp_path: Path) -> list[Placed]:
    """The tensors, in two files."""
    found = []
    for part, names in enumerate((["b.weight", "order"], ["a.weight", "a.bias", "scale"])):
        file = tmp_path / f"source-{part}.safetensors"
        save_file({name: TENSORS[name] for name in names}, file)
        found += [Placed(name, file) for name in names]
    return found


def same(found: dict[str, torch.Tensor]) -> bool:
    return found.keys() == TENSORS.keys() and all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in TENSORS.items()
    )


def test_one_file_holds_every_tensor_as_it_was(placed: list[Placed], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_shards(placed, tmp_path / "out", 10**6)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["model.safetensors"]
    assert same(load_file(tmp_path / "out" / "model.safetensors"))
    with safe_open(tmp_path / "out" / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


@pytest.mark.parametrize(("limit", "shards"), [(110, 2), (1, 5)])
def test_shards_keep_to_the_limit_and_their_index_finds_every_tensor(
    limit: int, shards: int, placed: list[Placed], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write_shards(placed, out, limit)
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in TENSORS.values())
    assert len(set(index["weight_map"].values())) == shards
    assert same({name: load_file(out / file)[name] for name, file in index["weight_map"].items()})
