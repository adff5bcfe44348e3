"""A whole run: an ordinary folder comes out, the same after any interruption, and the receipt says what is in it."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from prune_jobs import MakeJob
from safetensors.torch import load_file, save_file
from tiny_models import LAYERS, tiny_folder
from torch import Tensor
from torch.nn import functional

from export.errors import ExportError, OptionError
from export.hugging_face import load_network, load_tokenizer, transformers
from export.llm_folder import ModelFolder
from export.llm_layers import computing_dtype
from export.llm_text import drawn_windows, equal_windows, read_tokens
from export.prune import prune
from export.prune_plan import PruneJob
from export.prune_receipt import Twins, gains, matrices
from models.pruning.pattern import NM


class StoppedError(Exception):
    """What the reader's patience raises."""


def stop_after(step: str, done: int) -> Any:
    """A report that raises once a step has come that far."""

    def report(what: str, count: int, total: int) -> None:
        if what.startswith(step) and count >= done:
            raise StoppedError

    return report


def files(out: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "receipt.json"
    }


@pytest.fixture(scope="module")
def permuted(make_job: MakeJob, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], PruneJob]:
    """RIA 2:4 with permuted channels: folder, receipt, job."""
    settings: dict[str, object] = {"permute": True, "compute": "float32", "speed": True}
    job = make_job(tmp_path_factory.mktemp("permuted") / "out", method="ria", pattern="2:4", **settings)
    return job.out, prune(job), job


def test_an_ordinary_folder_comes_out(permuted: tuple[Path, dict[str, Any], PruneJob], tiny: Path) -> None:
    out, _, _ = permuted
    dense, pruned = load_file(tiny / "model" / "model.safetensors"), load_file(out / "model.safetensors")
    assert {name: (t.shape, t.dtype) for name, t in pruned.items()} == {
        name: (t.shape, t.dtype) for name, t in dense.items()
    }
    config = json.loads((out / "config.json").read_text())
    assert config == json.loads((tiny / "model" / "config.json").read_text())
    assert not any("spars" in name or "quant" in name for name in config)
    assert load_tokenizer(out)("the")["input_ids"] == load_tokenizer(tiny / "model")("the")["input_ids"]
    assert not (out / ".pruning").exists()


def test_loaders_find_no_safetensors_beside_the_weights(permuted: tuple[Path, dict[str, Any], PruneJob]) -> None:
    assert [path.name for path in permuted[0].glob("*.safetensors")] == ["model.safetensors"]


def test_every_matrix_obeys_the_pattern_in_its_order(permuted: tuple[Path, dict[str, Any], PruneJob]) -> None:
    out, receipt, _ = permuted
    weights, orders = load_file(out / "model.safetensors"), load_file(out / "pruning" / "permutations.safetensors")
    assert len(receipt["matrices"]) == 7 * LAYERS
    for entry in receipt["matrices"]:
        weight = weights[entry["name"]]
        assert entry["zeros"] == int((weight == 0).sum())
        assert entry["permutation"] == ("folded" if "down_proj" in entry["name"] else "gather")
        stored = weight if entry["permutation"] == "folded" else weight[:, orders[entry["name"]]]
        assert NM(2, 4).obeyed_by(stored)
        assert entry["retained_score_gain"] > -1e-6


def test_kept_weights_are_the_dense_ones_bit_by_bit(make_job: MakeJob, tiny: Path, tmp_path: Path) -> None:
    prune(make_job(tmp_path / "out", method="wanda", pattern="4:8"))
    dense, pruned = load_file(tiny / "model" / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    for name, tensor in pruned.items():
        assert torch.equal(tensor, torch.where(tensor != 0, dense[name], 0.0).to(tensor.dtype)), name


def test_perplexities_are_those_of_the_loaded_folders(
    permuted: tuple[Path, dict[str, Any], PruneJob], tiny: Path
) -> None:
    out, receipt, job = permuted
    assert job.evaluation is not None
    windows = equal_windows(read_tokens(job.evaluation, load_tokenizer(out)), 4, 32)
    for side, folder in (("dense", tiny / "model"), ("pruned", out)):
        assert receipt["perplexity"][side] == pytest.approx(_perplexity(folder, windows), rel=1e-4)
    assert receipt["perplexity"]["text"] == "evaluation.txt"
    assert receipt["perplexity"]["computed_in"] == "float32"
    assert receipt["perplexity"]["same_as_calibration"] is False


def test_computing_in_the_stored_precision_changes_perplexity_little_and_is_said(
    permuted: tuple[Path, dict[str, Any], PruneJob], make_job: MakeJob, tmp_path: Path
) -> None:
    receipt = prune(make_job(tmp_path / "out", method="ria", pattern="2:4", permute=True, compute="bfloat16"))
    assert receipt["perplexity"]["computed_in"] == "bfloat16"
    assert receipt["perplexity"]["dense"] == pytest.approx(permuted[1]["perplexity"]["dense"], rel=0.02)
    assert receipt["total"]["removed"] == 0.5


@pytest.mark.parametrize(
    ("asked", "stored", "flags", "expected"),
    [
        ("auto", "bfloat16", ["avx2", "avx512_bf16"], torch.bfloat16),
        ("auto", "bfloat16", ["avx2"], torch.float32),
        ("auto", "float16", ["avx512_bf16"], torch.float32),
        ("auto", None, ["avx512_bf16"], torch.float32),
        ("float32", "bfloat16", ["avx512_bf16"], torch.float32),
        ("bfloat16", "float32", [], torch.bfloat16),
    ],
)
def test_forward_passes_are_in_bfloat16_where_stored_so_and_fast(
    asked: str, stored: str | None, flags: list[str], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("export.llm_layers.cpu_flags", lambda: {"flags": flags})
    assert computing_dtype(asked, stored) == expected


def _perplexity(folder: Path, windows: Tensor) -> float:
    logits = load_network(folder)(input_ids=windows).logits[:, :-1]
    return math.exp(float(functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())))


def test_sizes_and_speeds_are_measured_and_no_gain_is_claimed_for_zeros(
    permuted: tuple[Path, dict[str, Any], PruneJob], tiny: Path
) -> None:
    out, receipt, _ = permuted
    size = (out / "model.safetensors").stat().st_size
    assert receipt["size"] == {
        "dense_bytes": (tiny / "model" / "model.safetensors").stat().st_size,
        "pruned_bytes": size,
    }
    assert receipt["speed"]["dense"]["tokens_per_cpu_second"] > 0
    assert receipt["speed"]["pruned"]["ttft_ms"] > 0
    missed = {entry["what"].partition(":")[0]: entry["why"] for entry in receipt["not_gained"]}
    assert "zeros are stored" in missed["file size and memory for weights"]
    assert "--precision packed-2:4" in missed["file size and memory for weights"]
    assert "gather" in missed["the stored order obeys the pattern everywhere"]
    assert receipt["total"]["removed"] == 0.5


def test_the_written_receipt_is_the_returned_one(permuted: tuple[Path, dict[str, Any], PruneJob]) -> None:
    assert json.loads((permuted[0] / "receipt.json").read_text()) == permuted[1]


def test_zeros_the_dense_model_brings_along_are_no_fault(make_job: MakeJob, tmp_path: Path) -> None:
    model = tiny_folder(tmp_path / "model")
    weights = load_file(model / "model.safetensors")
    weights["model.layers.0.self_attn.q_proj.weight"][::3, ::5] = 0
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    receipt = prune(
        make_job(tmp_path / "out", model=str(model), method="magnitude", pattern="structured", sparsity=0.2)
    )
    assert receipt["matrices"][0]["verified"]
    assert receipt["matrices"][0]["zeros"] > 0


def test_a_matrix_that_breaks_its_pattern_fails_the_run(
    permuted: tuple[Path, dict[str, Any], PruneJob], tiny: Path, tmp_path: Path
) -> None:
    out, _, job = permuted
    shutil.copytree(out, tmp_path / "copy")
    weights = load_file(out / "model.safetensors")
    weights["model.layers.1.mlp.down_proj.weight"][0] = 1.0
    save_file(weights, tmp_path / "copy" / "model.safetensors")
    with pytest.raises(ExportError, match=r"layers\.1\.mlp\.down_proj\.weight breaks the pattern"):
        matrices(
            ModelFolder(tiny / "model", "tiny"), ModelFolder(tmp_path / "copy", "copy"), LAYERS, job, [{}] * LAYERS
        )


@pytest.mark.parametrize(
    ("settings", "step", "done"),
    [
        ({"method": "ria", "pattern": "2:4", "permute": True}, "prune layers", 1),
        ({"method": "surgeon", "pattern": "structured", "sparsity": 0.2, "shots": 2}, "curvature, shot 2", 1),
        ({"method": "wanda", "pattern": "channels", "sparsity": 0.25, "kv_groups": 1}, "prune layers", 1),
        ({"method": "magnitude", "pattern": "structured", "sparsity": 0.2}, "measure pruned", 1),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else str(value),
)
def test_a_stopped_run_resumes_to_the_same_bytes(
    settings: dict[str, Any], step: str, done: int, make_job: MakeJob, tmp_path: Path
) -> None:
    prune(make_job(tmp_path / "straight", **settings))
    with pytest.raises(StoppedError):
        prune(make_job(tmp_path / "stopped", **settings), stop_after(step, done))
    assert not (tmp_path / "stopped" / "receipt.json").exists()
    prune(make_job(tmp_path / "stopped", resume=True, **settings))
    assert files(tmp_path / "stopped") == files(tmp_path / "straight")


def test_resuming_with_other_settings_is_refused_by_name(make_job: MakeJob, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        prune(make_job(tmp_path / "out", method="ria", seed=1), stop_after("prune layers", 1))
    with pytest.raises(OptionError, match="seed: this run has 2, the unfinished one had 1"):
        prune(make_job(tmp_path / "out", method="ria", seed=2, resume=True))


def test_an_unfinished_folder_is_not_overwritten_unasked(make_job: MakeJob, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        prune(make_job(tmp_path / "out"), stop_after("prune layers", 1))
    with pytest.raises(OptionError, match="is not empty") as refused:
        prune(make_job(tmp_path / "out"))
    assert "--resume" in refused.value.hint


def test_a_refused_run_leaves_nothing_behind(make_job: MakeJob, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="a multiple of 5"):
        prune(make_job(tmp_path / "out", pattern="2:5", method="magnitude", calibration=None, evaluation=None))
    assert not (tmp_path / "out").exists()


def test_the_same_seed_writes_the_same_bytes_and_another_does_not(make_job: MakeJob, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        prune(make_job(tmp_path / name, method="wanda", pattern="unstructured", seed=seed, evaluation=None))
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a") != files(tmp_path / "c")


@pytest.mark.parametrize("method", ["magnitude", "ria", "surgeon"])
def test_removed_channels_make_smaller_matrices_that_load(method: str, make_job: MakeJob, tmp_path: Path) -> None:
    out = tmp_path / "out"
    receipt = prune(make_job(out, method=method, pattern="channels", sparsity=0.25, kv_groups=1))
    config = json.loads((out / "config.json").read_text())
    assert [config[name] for name in ("intermediate_size", "num_attention_heads", "num_key_value_heads")] == [48, 2, 1]
    assert receipt["size"]["pruned_bytes"] < 0.75 * receipt["size"]["dense_bytes"]
    assert any("file size" in gain for gain in receipt["gained"])
    windows = torch.arange(64).reshape(2, 32)
    assert math.isfinite(_perplexity(out, windows))
    assert receipt["total"]["stored_weights"] < receipt["total"]["dense_weights"] == 18432


def test_a_network_with_biases_and_shards_is_pruned_as_well(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_folder(tmp_path / "model", attention_bias=True, mlp_bias=True)
    network = transformers().AutoModelForCausalLM.from_pretrained(model)
    network.save_pretrained(model, max_shard_size="40KB")
    (model / "model.safetensors").unlink()
    monkeypatch.setattr("export.prune_write.SHARD_BYTES", 40_000)
    prune(make_job(tmp_path / "out", model=str(model), method="ria", pattern="2:4", permute=True))
    assert len(list((tmp_path / "out").glob("model-*-of-*.safetensors"))) > 1
    windows = torch.arange(64).reshape(2, 32)
    assert math.isfinite(_perplexity(tmp_path / "out", windows))


def test_a_network_larger_than_its_room_is_timed_from_disk(tiny: Path, tmp_path: Path) -> None:
    whole = load_network(tiny / "model")
    parts = load_network(tiny / "model", room=60_000, offload=tmp_path)
    ids = torch.arange(20)[None]
    assert "disk" in set(parts.hf_device_map.values())  # type: ignore[union-attr, operator]
    torch.testing.assert_close(parts(input_ids=ids).logits, whole(input_ids=ids).logits)


def test_windows_lie_at_equal_strides_or_one_in_each_part(tiny: Path) -> None:
    text = read_tokens(tiny / "evaluation.txt", load_tokenizer(tiny / "model"))
    stride = len(text.ids) // 5
    assert torch.equal(equal_windows(text, 5, 16)[3], text.ids[3 * stride : 3 * stride + 16])
    drawn = drawn_windows(text, 5, 16, seed=0)
    for part, window in enumerate(drawn):
        inside = text.ids[part * stride : (part + 1) * stride].unfold(0, 16, 1)
        assert (inside == window).all(dim=1).any()


@pytest.mark.parametrize(
    ("settings", "packs"),
    [
        ({"pattern": "2:4"}, True),
        ({"pattern": "4:8"}, False),
        ({"pattern": "unstructured"}, False),
        ({"method": "surgeon", "pattern": "2:4"}, True),
        ({"method": "surgeon", "pattern": "2:4", "sparsity": 0.3}, False),
    ],
)
def test_packing_is_advised_only_where_every_matrix_can_be_packed(
    settings: dict[str, Any], packs: bool, make_job: MakeJob, tmp_path: Path
) -> None:
    _, missed = gains(Twins(1000, 1000, None), [], make_job(tmp_path / "out", **settings))
    assert ("packed-2:4" in missed[0]["why"]) is packs


def test_gains_are_claimed_beyond_noise_only(make_job: MakeJob, tmp_path: Path) -> None:
    from export.llm_speed import Speed

    job = make_job(tmp_path / "out", pattern="channels", sparsity=0.25)
    speed = {"dense": Speed(100.0, 50.0), "pruned": Speed(120.0, 49.0)}
    gained, missed = gains(Twins(1000, 800, speed), [], job)
    assert [one.partition(":")[0] for one in gained] == ["file size and memory for weights", "tokens per CPU second"]
    assert [one["what"] for one in missed] == ["time to first token: 0.98 of dense"]
