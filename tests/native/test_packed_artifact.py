"""A pruned model is pressed as packed-2:4, certified like fp32, and served; without the kernels its load is refused."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from live_server import clean_environment

from export.artifact import Artifact, ArtifactError, read_artifact
from models.packed import library
from services.core.call import Call
from services.core.settings import Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own imports warn
    from services.llm import COMPLETIONS_ROUTE, LlmFamily

PRESSROOM = "from pressroom.cli import main; main()"


@pytest.fixture(scope="module")
def artifact(pruned: Path, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    home = tmp_path_factory.mktemp("packed-home")
    command = [sys.executable, "-c", PRESSROOM, "export", "llm", str(pruned), "--name", "tiny-packed"]
    command += ["--precision", "packed-2:4", "--tokens", "64", "--evaluation-windows", "2"]
    done = subprocess.run(command, env=clean_environment(home), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return read_artifact(home / "models" / "tiny-packed" / "1")


def test_the_certificate_holds_with_the_bounds_of_fp32(artifact: Artifact) -> None:
    certificate = artifact.read_json("parity.json")
    assert artifact.manifest.settings["precision"] == "packed-2:4"
    assert (certificate["verdict"], certificate["tolerance"]["logprob"]) == ("ok", 1e-3)


async def test_it_is_served_and_answers_its_example(artifact: Artifact) -> None:
    model = LlmFamily().load(artifact, Settings(llm_slots=2))
    await model.warm_up()  # raises unless the example's tokens come out
    request = {"prompt": "The", "max_tokens": 3, "temperature": 0}
    answer = await model.answer(request, Call(COMPLETIONS_ROUTE, "none", "test"))
    assert answer["usage"]["completion_tokens"] == 3
    await model.close()


def test_without_the_kernels_the_load_is_refused_with_what_to_do(
    artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LIBRARY", Path("missing.so"))
    with pytest.raises(ArtifactError, match="tiny-packed:1: the graph has packed 2:4 layers") as refused:
        LlmFamily().load(artifact, Settings(llm_slots=2))
    assert "make setup" in refused.value.hint
