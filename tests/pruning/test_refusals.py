"""What a run refuses: in words, before any work, with a way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prune_jobs import MakeJob
from tiny_models import tiny_folder
from typer.testing import CliRunner

from export.errors import CheckpointFileError, DataError, ExportError, OptionError
from export.prune import prune
from export.prune_memory import parse_bytes
from pressroom.cli import app, main

MISUSE = [
    ({"method": "sparsegpt"}, "method 'sparsegpt' is not known"),
    ({"pattern": "2-4"}, "unstructured or N:M such as 2:4"),
    ({"pattern": "4:2"}, "0 < N < M"),
    ({"pattern": "unstructured", "sparsity": 1.0}, "between 0 and 1"),
    ({"pattern": "2:4", "sparsity": 0.3}, "contradicts 2:4"),
    ({"pattern": "structured", "method": "wanda"}, "no comparable cost"),
    ({"pattern": "unstructured", "permute": True}, "N:M pattern"),
    ({"method": "surgeon", "permute": True}, "N:M pattern by scores"),
    ({"method": "ria", "calibration": None}, "needs a calibration text"),
    ({"method": "surgeon", "pattern": "2:4", "sparsity": 0.7}, "at most 0.5"),
    ({"method": "surgeon", "pattern": "structured", "shots": 0}, "whole number from 1"),
    ({"method": "surgeon", "pattern": "structured", "damping": 0.0}, "damping: got 0.0"),
    ({"compute": "float16"}, "compute 'float16' is not known"),
    ({"windows": 0}, "windows: got 0"),
    ({"tokens": 1}, "tokens: got 1"),
    ({"model": "no/such/model"}, "no such model"),
    ({"pattern": "channels", "sparsity": 0.01}, "a share of 64 channels"),
    ({"pattern": "channels", "sparsity": 0.25, "kv_groups": 2}, "0 to 1"),
    ({"memory_cap": 1_000_000}, "memory cap 0.00 GB: this run needs about"),
]


@pytest.mark.parametrize(("settings", "words"), MISUSE, ids=[words for _, words in MISUSE])
def test_misuse_is_refused_and_leaves_nothing(
    settings: dict[str, Any], words: str, make_job: MakeJob, tmp_path: Path
) -> None:
    with pytest.raises(OptionError) as refused:
        prune(make_job(tmp_path / "out", **settings))
    assert words in refused.value.message
    assert not (tmp_path / "out").exists()


def test_a_text_too_short_for_its_windows_is_refused_with_the_number_that_fits(
    make_job: MakeJob, tmp_path: Path
) -> None:
    (tmp_path / "short.txt").write_text("too short a text")
    with pytest.raises(DataError, match="too few for 4 windows of 32"):
        prune(make_job(tmp_path / "out", calibration=tmp_path / "short.txt"))


def test_bytes_that_are_no_text_are_refused(make_job: MakeJob, tmp_path: Path) -> None:
    (tmp_path / "noise.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not readable as UTF-8"):
        prune(make_job(tmp_path / "out", calibration=tmp_path / "noise.txt"))


def broken_folder(kind: str, folder: Path) -> Path:
    path = tiny_folder(folder)
    config = json.loads((path / "config.json").read_text())
    if kind == "pickled":
        (path / "model.safetensors").rename(path / "pytorch_model.bin")
    elif kind == "cut":
        (path / "model.safetensors").write_bytes((path / "model.safetensors").read_bytes()[:1000])
    elif kind == "quantised":
        (path / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "awq"}}))
    elif kind == "another":
        (path / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}))
    elif kind == "bare":
        (path / "config.json").unlink()
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pickled", "only pickled weights"),
        ("cut", "not a readable safetensors file"),
        ("quantised", r"quantised \(awq\)"),
        ("another", r"model\.layers: not there in GPT2LMHeadModel"),
        ("bare", r"config\.json is missing"),
    ],
)
def test_a_model_that_cannot_be_pruned_is_refused_by_what_it_lacks(
    kind: str, words: str, make_job: MakeJob, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointFileError, match=words):
        prune(make_job(tmp_path / "out", model=str(broken_folder(kind, tmp_path / "model"))))
    assert not (tmp_path / "out").exists()


def test_a_file_that_only_ends_in_gguf_is_refused(make_job: MakeJob, tmp_path: Path) -> None:
    (tmp_path / "fake.gguf").write_bytes(b"GGML" + bytes(64))
    with pytest.raises(CheckpointFileError, match=r"fake\.gguf does not load"):
        prune(make_job(tmp_path / "out", model=str(tmp_path / "fake.gguf")))


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("512MiB", 512 * 2**20), ("1.5g", 1_500_000_000), ("1e9", 10**9), ("7", 7)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["much", "", "-1GB", "0", "1.2.3GB"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="is no size"):
        parse_bytes(text)


def command(tiny: Path, out: Path, *more: str) -> list[str]:
    few = ["--windows", "2", "--tokens", "16", "--evaluation-windows", "2", "--no-speed"]
    texts = ["--calibration", str(tiny / "calibration.txt"), "--evaluation", str(tiny / "evaluation.txt")]
    return ["prune", str(tiny / "model"), "--out", str(out), *texts, *few, *more]


def test_the_command_prints_a_table_and_what_is_not_gained(tiny: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, command(tiny, tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "perplexity on evaluation.txt" in result.output
    assert "14 matrices verified" in result.output
    assert "not gained: file size" in result.output


def test_the_command_prints_the_receipt_as_json(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(command(tiny, tmp_path / "out", "--json", "--method", "magnitude"))
    assert done.value.code == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "out" / "receipt.json").read_text())


@pytest.mark.parametrize(("more", "status"), [(["--pattern", "4:2"], 2), (["--pattern", "2:5"], 1)])
def test_exit_status_tells_misuse_from_a_finding(
    more: list[str], status: int, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(command(tiny, tmp_path / "out", *more))
    assert refused.value.code == status
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "hint: " in error


def test_errors_of_the_family_are_export_errors() -> None:
    assert issubclass(OptionError, ExportError)
