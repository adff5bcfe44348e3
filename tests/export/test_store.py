"""The model store: whole artifacts or none, safe for several writers, and a reader that notices every change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bentoml
import pytest
import torch

from export import store as store_module
from export.artifact import ArtifactError, open_artifact, stored_versions
from export.errors import StoreError
from export.forecast import Pressed
from export.store import listed

ROOT = Path(__file__).parents[2]
Press = Callable[..., Pressed]


def test_bentoml_sees_the_artifact_as_one_of_its_models(press_small: Press) -> None:
    pressed = press_small()
    model = bentoml.models.get("small:latest")
    assert model.info.labels["pressroom.digest"] == pressed.stored.digest
    assert model.info.labels["pressroom.family"] == "forecast"
    assert Path(model.path) == pressed.stored.path
    assert stored_versions("forecast") == {"small": ["1"]}


def test_the_list_tells_what_the_labels_say(press_small: Press) -> None:
    digest = press_small().stored.digest
    (entry,) = listed()
    assert (entry.name, entry.version, entry.family, entry.architecture) == ("small", "1", "forecast", "itransformer")
    assert (entry.digest, entry.verdict) == (digest, "ok")
    assert entry.bytes > 100_000


@pytest.mark.parametrize("file", ["network.safetensors", "parity.json", "parity.safetensors", "example.json"])
def test_a_damaged_file_is_refused_by_name(press_small: Press, file: str) -> None:
    path = press_small().stored.path / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"small:1: {file} is damaged"):
        open_artifact("small")


def test_a_missing_file_is_refused_by_name(press_small: Press) -> None:
    (press_small().stored.path / "example.json").unlink()
    with pytest.raises(ArtifactError, match=r"example\.json is missing"):
        open_artifact("small")


def test_an_added_file_is_refused_by_name(press_small: Press) -> None:
    (press_small().stored.path / "notes.txt").write_text("hello")
    with pytest.raises(ArtifactError, match=r"unexpected file notes\.txt"):
        open_artifact("small")


def test_an_edited_manifest_is_refused(press_small: Press) -> None:
    path = press_small().stored.path / "artifact.json"
    document = json.loads(path.read_bytes())
    document["settings"]["horizon"] = 48
    path.write_text(json.dumps(document))
    with pytest.raises(ArtifactError, match=r"artifact\.json was edited"):
        open_artifact("small")


def test_an_interrupted_write_leaves_nothing(press_small: Press, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        press_small()
    assert list((home / "models").iterdir()) == []
    assert not [entry.name for entry in home.iterdir() if entry.name.startswith(".pressing")]


def test_a_store_on_another_file_system_is_filled_by_copying(
    press_small: Press, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "rename", refuse)
    press_small()
    assert open_artifact("small").tag == "small:1"


def test_versions_of_other_tools_are_left_alone(press_small: Press) -> None:
    with bentoml.models.create("small:7") as model:
        (Path(model.path) / "weights").write_bytes(b"x")
    assert press_small().stored.tag == "small:8"
    with pytest.raises(StoreError, match="small:7 exists"):
        press_small(version="7")


def test_an_exception_while_storing_is_not_a_version(
    press_small: Press, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, **options: object) -> None:
        raise ArtifactError("read back wrongly")

    monkeypatch.setattr(store_module, "read_artifact", broken)
    with pytest.raises(ArtifactError):
        press_small()
    assert list((home / "models").iterdir()) == []


def test_two_processes_pressing_at_once_both_succeed(
    tmp_path: Path, official: Callable[..., dict[str, object]]
) -> None:
    torch.save(official("itransformer"), tmp_path / "checkpoint.pth")
    heads = ("8", "8", "4")  # two of the same network, one of another
    command = [
        *(sys.executable, "-c", "from pressroom.cli import main; main()", "export", "forecast", "itransformer"),
        *(str(tmp_path / "checkpoint.pth"), "--name", "race", "--runtime", "torch", "--json"),
        *("--scaler", "none", "--freq", "h", "--set", "enc_in=7"),
    ]
    env = os.environ | {"BENTOML_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    (tmp_path / "home").mkdir()
    running = [
        subprocess.Popen([*command, "--set", f"n_heads={n}"], env=env, cwd=ROOT, stdout=subprocess.PIPE) for n in heads
    ]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert {answer["version"] for answer in answers} == {"1", "2"}
    assert answers[0]["tag"] == answers[1]["tag"]
    assert sorted(answer["unchanged"] for answer in answers) == [False, False, True]
