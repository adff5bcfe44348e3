"""`pressroom verify` and `inspect` of a stored language model: exit codes, words for people, JSON for machines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from export.artifact import DIGEST_LABEL, digest_of, sha256_file
from models.packed.library import is_built

Invoke = Callable[..., "subprocess.CompletedProcess[str]"]

_WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Absent())
from pressroom.cli import main
main(["verify", "tiny-int8"])
"""


@pytest.fixture
def copied(copied_llm_home: Path) -> Path:
    """The folder of a stored tiny-int8 that may be damaged."""
    (manifest,) = (copied_llm_home / "models" / "tiny-int8").glob("*/artifact.json")
    return manifest.parent


def rewrite(folder: Path, file: str, content: bytes) -> None:
    """Replace a file and every digest that names it, as someone who knows the format could."""
    (folder / file).write_bytes(content)
    manifest = json.loads((folder / "artifact.json").read_bytes())
    manifest["files"][file] = {"sha256": sha256_file(folder / file), "bytes": len(content)}
    raw = (json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
    before = digest_of((folder / "artifact.json").read_bytes())
    (folder / "artifact.json").write_bytes(raw)
    record = (folder / "model.yaml").read_text()
    assert DIGEST_LABEL in record
    (folder / "model.yaml").write_text(record.replace(before, digest_of(raw)))


def test_a_sound_model_verifies_without_torch(copied: Path) -> None:
    home = copied.parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_TORCH],
        env={"BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    ways = ["pressroom", "onnxruntime"] if is_built() else ["onnxruntime"]
    names = ["short", "one-token", "code", "scripts", "long", "chat", "ragged-7"]
    *cases, every, example, _ = (line.split() for line in lines[1:])
    assert [(name, way) for name, way, *_ in cases] == [(name, way) for way in ways for name in names]
    assert (every[0], every[-1]) == ("all", "ok")
    assert example[-3:] == ["same", "tokens", "ok"]


def test_json_tells_every_case_and_the_example(copied: Path, invoke: Invoke) -> None:
    done = invoke("verify", "tiny-int8", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["holds"], found["example"]["holds"]) == (0, True, True)
    assert [case["name"] for case in found["cases"]][-1] == "all"
    assert found["tolerance"]["kl"] == 0.05


def test_references_that_the_graph_does_not_meet_are_a_finding(copied: Path, invoke: Invoke) -> None:
    arrays = load_file(copied / "parity.safetensors")
    changed = {name: array[..., ::-1].copy() if name.endswith("/logprobs") else array for name, array in arrays.items()}
    save_file(changed, copied / "scratch")
    rewrite(copied, "parity.safetensors", (copied / "scratch").read_bytes())
    (copied / "scratch").unlink()
    done = invoke("verify", "tiny-int8")
    assert done.returncode == 1
    assert "FAIL: mean divergence is" in done.stdout


def test_an_example_with_another_answer_is_a_finding(copied: Path, invoke: Invoke) -> None:
    example = json.loads((copied / "example.json").read_bytes())
    example["response"]["choices"][0]["text"] = "something else"
    rewrite(copied, "example.json", json.dumps(example).encode())
    done = invoke("verify", "tiny-int8")
    assert done.returncode == 1
    assert "other tokens" in done.stdout


@pytest.mark.parametrize("file", ["model.onnx", "model.onnx.data", "tokenizer.json", "parity.safetensors"])
def test_a_damaged_file_is_named(file: str, copied: Path, invoke: Invoke) -> None:
    raw = bytearray((copied / file).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copied / file).write_bytes(raw)
    done = invoke("verify", "tiny-int8")
    assert done.returncode == 1
    assert f"{file} is damaged" in done.stderr


def test_inspect_shows_the_certificate_beside_its_bounds(copied: Path, invoke: Invoke) -> None:
    done = invoke("inspect", "tiny-int8")
    assert done.returncode == 0
    assert "mean Kullback-Leibler divergence, nats" in done.stdout
    assert "perplexity on wikitext2_eval.txt" in done.stdout
    assert "a prompt, or the messages of a chat; prompt and answer together at most 256 tokens" in done.stdout
    assert json.loads(invoke("inspect", "tiny-int8", "--json").stdout)["certificate"]["verdict"] == "ok"


def test_a_name_that_is_not_there_is_misuse(copied: Path, invoke: Invoke) -> None:
    assert invoke("verify", "tiny-int3").returncode == 2
