"""A run killed without a word goes on where it was, and ends as if nothing had happened."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_server import clean_environment
from prune_jobs import MakeJob
from tiny_models import tiny_folder

from export.prune import prune
from export.prune_work import layer_stem

SECONDS = 240  # a busy machine imports slowly
SETTINGS: dict[str, object] = {"method": "ria", "pattern": "2:4", "permute": True, "windows": 8, "tokens": 64}
RUN = """
import sys
from pathlib import Path
import torch
from export.prune import prune
from export.prune_plan import PruneJob
torch.set_num_threads(1)
model, calibration, evaluation, out = sys.argv[1:]
prune(PruneJob(
    model=model, out=Path(out), calibration=Path(calibration), evaluation=Path(evaluation), evaluation_windows=4,
    method="ria", pattern="2:4", permute=True, windows=8, tokens=64, speed=False,
))
"""


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers enough for a kill to fall between two of them."""
    return tiny_folder(tmp_path_factory.mktemp("deep") / "model", num_hidden_layers=24)


def files(out: Path) -> dict[str, bytes]:
    """Everything but the receipt, which tells times."""
    every = (path for path in sorted(out.rglob("*")) if path.is_file() and path.name != "receipt.json")
    return {str(path.relative_to(out)): path.read_bytes() for path in every}


def test_a_killed_run_resumes_to_the_same_bytes(deep: Path, tiny: Path, make_job: MakeJob, tmp_path: Path) -> None:
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    texts = [str(tiny / "calibration.txt"), str(tiny / "evaluation.txt")]
    running = subprocess.Popen(
        [sys.executable, "-c", RUN, str(deep), *texts, str(killed)], env=clean_environment(tmp_path)
    )
    third, deadline = killed / ".pruning" / f"{layer_stem(2)}.json", time.monotonic() + SECONDS
    while not third.exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    running.kill()
    assert running.wait() < 0  # by the signal, not done
    assert not (killed / "receipt.json").exists()
    kept = third.stat().st_mtime_ns

    seen: list[tuple[str, int]] = []

    def look(step: str, done: int, total: int) -> None:
        if third.exists():
            seen.append((step, third.stat().st_mtime_ns))

    prune(make_job(killed, model=str(deep), resume=True, **SETTINGS), look)
    prune(make_job(straight, model=str(deep), **SETTINGS))
    assert {when for _, when in seen} == {kept}  # the finished layer was not made again
    assert files(killed) == files(straight)


def test_shards_of_a_run_stopped_while_writing_are_not_left_behind(make_job: MakeJob, tmp_path: Path) -> None:
    """The first run is stopped when its folder is complete but for the receipt; the second may use larger shards."""

    class StoppedError(Exception):
        pass

    def stop(step: str, done: int, total: int) -> None:
        if step == "verify matrices":
            raise StoppedError

    small: dict[str, object] = {"method": "magnitude", "pattern": "2:4"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("export.prune_write.SHARD_BYTES", 20_000)
        with pytest.raises(StoppedError):
            prune(make_job(tmp_path / "out", **small), stop)
    assert len(list((tmp_path / "out").glob("model-*-of-*.safetensors"))) > 1
    prune(make_job(tmp_path / "out", resume=True, **small))
    prune(make_job(tmp_path / "straight", **small))
    assert files(tmp_path / "out") == files(tmp_path / "straight")
