"""Adapters attach to one backbone by its digest, and to nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bentoml._internal.configuration.containers import BentoMLContainer
from bentoml._internal.models import ModelStore
from tutorial_records import MODEL, STARTS, adapter

from export.artifact import ArtifactError, attached_adapters, attaches, read_artifact, stored_versions
from export.ehr_adapter import store_adapter
from export.errors import OptionError, StoreError
from models.errors import InputError
from models.motor.spec import EhrSpec
from models.motor.task_file import read_task_file
from services.ehr_tasks import Tasks, open_tasks

OTHER = "sha256:" + "f" * 64


@pytest.fixture
def store(ehr_home: Path, tmp_path: Path) -> Iterator[Path]:
    """A private copy of the store, which this process uses."""
    copy = shutil.copytree(ehr_home, tmp_path / "home", symlinks=True) / "models"
    BentoMLContainer.model_store.set(ModelStore(copy))
    yield copy
    BentoMLContainer.model_store.reset()


def written(folder: Path, *arguments: Any, **changed: Any) -> Path:
    path = folder / "task.adapter.json"
    path.write_bytes(adapter(*arguments, **changed).dump())
    return path


def backbone(store: Path) -> str:
    return str(json.loads((store / MODEL / "1" / "artifact.json").read_bytes())["settings"]["backbone"])


def opened(store: Path) -> Tasks:
    artifact = read_artifact(store / MODEL / "1")
    return open_tasks(artifact, EhrSpec.from_settings(artifact.manifest.settings))


def test_the_same_file_is_stored_once_and_a_changed_one_needs_a_version(store: Path, tmp_path: Path) -> None:
    digest = backbone(store)
    assert store_adapter(written(tmp_path, digest)).stored.unchanged
    with pytest.raises(StoreError, match="holds something else"):
        store_adapter(written(tmp_path, digest, l2=1.0))
    assert not store_adapter(written(tmp_path, digest, "3", l2=1.0)).stored.unchanged
    assert [read_task_file(raw).version for _, raw in attached_adapters(digest)] == ["1", "2", "3"]


def test_two_backbones_may_have_tasks_of_one_name(store: Path, tmp_path: Path) -> None:
    other = store_adapter(written(tmp_path, OTHER)).stored
    assert other.name != f"nervous.{backbone(store).removeprefix('sha256:')[:12]}"
    assert [task.version for task in opened(store).find(["nervous:1", "nervous"])] == ["1", "2"]
    assert len(attached_adapters(OTHER)) == 1


def test_an_adapter_is_never_served_alone(store: Path) -> None:
    names = stored_versions("ehr-adapter")
    assert list(names.values()) == [["1", "2"]]
    assert all(attaches(name) for name in names)
    assert not attaches(MODEL)
    assert not attaches("nothing-of-this-name")
    assert list(stored_versions("ehr")) == [MODEL]


def test_a_damaged_adapter_is_named(store: Path) -> None:
    (file,) = store.glob("nervous.*/2/adapter.json")
    file.write_bytes(file.read_bytes().replace(b'"l2": 0.0', b'"l2": 0.5'))
    with pytest.raises(ArtifactError, match=r"nervous\.[0-9a-f]{12}:2.*damaged"):
        opened(store)


@pytest.mark.parametrize("changed", [{"time_bins": (0.0, *STARTS[2:])}, {"vector": (0.0,) * 32}])
def test_an_adapter_of_another_head_is_refused(store: Path, tmp_path: Path, changed: dict[str, Any]) -> None:
    store_adapter(written(tmp_path, backbone(store), "9", **changed))
    with pytest.raises(ArtifactError, match="nervous:9 has other bins or another rank"):
        opened(store)


@pytest.mark.parametrize("raw", [b"{}", b"\x80\x04", b"[]"])
def test_a_file_that_is_no_adapter_is_not_stored(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "task.adapter.json"
    path.write_bytes(raw)
    with pytest.raises(OptionError, match=r"task\.adapter\.json"):
        store_adapter(path)


def test_without_adapters_few_pretraining_tasks_are_the_default_and_many_must_be_named() -> None:
    few = Tasks(["A", "B:1"], np.zeros((2, 3)), np.zeros((2, 4)), [])
    assert [task.name for task in few.find(None)] == ["A", "B:1"]
    assert [task.version for task in few.find(["B:1"])] == [None]  # a code, not a version
    many = Tasks([str(i) for i in range(300)], np.zeros((300, 3)), np.zeros((300, 4)), [])
    with pytest.raises(InputError, match="300 tasks"):
        many.find(None)
    assert many.describe()["pretraining_tasks_total"] == 300
    assert len(many.describe()["pretraining_tasks"]) == 256
