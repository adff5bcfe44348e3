"""A model store for each test, official checkpoints made from golden cases, and the bundled ones pressed once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from one_thread import one_thread  # noqa: F401 (a fixture of this folder)
from safetensors.torch import load_file
from torch import Tensor

from export.forecast import ForecastJob, Pressed, press
from export.forecast_data import DataOptions
from export.hyperparameters import Stated
from pressroom.cli import main

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own imports warn, and its modules load on first use
    import bentoml.models  # noqa: F401
    from bentoml._internal.configuration.containers import BentoMLContainer
    from bentoml._internal.models import ModelStore

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
ETTH1 = ROOT / "data" / "ett" / "ETTh1.csv"
CASES = {"itransformer": "itransformer_m7_96_96_marks", "card": "card_ett_96_96"}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty BENTOML_HOME for code run in this process."""
    with _store_at(tmp_path / "home"):
        yield tmp_path / "home"


@pytest.fixture(scope="module")
def llm_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty BENTOML_HOME for a file's language models, pressed in this process."""
    home = tmp_path_factory.mktemp("llm")
    with _store_at(home):
        yield home


@pytest.fixture
def bundled_store(pressed_home: Path) -> Iterator[Path]:
    """The pressed bundled checkpoints for code run in this process."""
    with _store_at(pressed_home):
        yield pressed_home


@pytest.fixture
def copied_home(pressed_home: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the bundled store that may be damaged; it is this process's store as well."""
    shutil.copytree(pressed_home, tmp_path / "copy")
    with _store_at(tmp_path / "copy"):
        yield tmp_path / "copy"


@pytest.fixture
def copied_llm_home(tiny_llm_home: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the tiny language models' store that may be damaged; it is this process's store as well."""
    home = Path(shutil.copytree(tiny_llm_home, tmp_path / "copy", symlinks=True))
    with _store_at(home):
        yield home


@pytest.fixture
def pressroom() -> Run:
    """pressroom(home, *arguments) runs the command line in a process of its own."""
    return run_pressroom


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """invoke(*arguments) -> the same in this process and its store, which is quicker."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(left.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def official() -> Callable[[str], dict[str, Tensor]]:
    """official("card") -> a state dict of the official program, official names."""
    return golden_state


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """checkpoint(content, folder) -> a checkpoint.pth with that content, as torch.save writes it."""

    def make(content: Any, folder: str = "run") -> Path:
        path = tmp_path / folder / "checkpoint.pth"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, path)
        return path

    return make


@pytest.fixture
def small_job(checkpoint: Callable[..., Path]) -> Callable[..., ForecastJob]:
    """small_job("card", name=...) -> a complete job: official weights, ETTh1, and the torch runtime, which is fast."""

    def make(architecture: str = "itransformer", **changes: Any) -> ForecastJob:
        given: dict[str, Any] = {
            "architecture": architecture,
            "checkpoint": changes.pop("checkpoint", None) or checkpoint(golden_state(architecture)),
            "name": "small",
            "stated": Stated(config=golden_config(architecture)),
            "data": DataOptions(data=ETTH1, split="ett-hourly"),
            "runtime": "torch",
        }
        return ForecastJob(**(given | changes))

    return make


@pytest.fixture
def press_small(home: Path, small_job: Callable[..., ForecastJob]) -> Callable[..., Pressed]:
    """press_small("card", name=...) -> such a job, pressed into the test's own store."""
    return lambda *architecture, **changes: press(small_job(*architecture, **changes))


def golden_config(architecture: str) -> Path:
    return GOLDEN / architecture / f"{CASES[architecture]}.json"


def golden_state(architecture: str) -> dict[str, Tensor]:
    tensors = load_file(GOLDEN / architecture / f"{CASES[architecture]}.safetensors")
    return {name.removeprefix("state."): t for name, t in tensors.items() if name.startswith("state.")}


def run_pressroom(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command line; standard output and error as text."""
    env = os.environ | {"BENTOML_HOME": str(home), "OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, "-c", "from pressroom.cli import main; main()", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


class _store_at:  # noqa: N801  reads as a phrase
    """BentoML's model store moved to another home for a while."""

    def __init__(self, home: Path) -> None:
        self.models = home / "models"

    def __enter__(self) -> None:
        self.models.mkdir(parents=True, exist_ok=True)
        BentoMLContainer.model_store.set(ModelStore(self.models))

    def __exit__(self, *error: object) -> None:
        BentoMLContainer.model_store.reset()
