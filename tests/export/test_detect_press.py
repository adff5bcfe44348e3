"""Pressing image models: what is told apart, what is recorded, what is refused; verify and inspect."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_server import PRESSROOM, clean_environment
from safetensors.torch import load_file, save_file

from export.artifact import Artifact, read_artifact
from export.detect_configs import KNOWN, read_config
from export.detect_labels import read_embeddings
from export.detect_parity import CaseResult, compare, require
from export.detect_source import DetectJob, open_job
from export.errors import CheckpointFileError, ExportError, HyperParameterError, OptionError, ParityError
from models.clipself.config import parse_config

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data" / "checkpoints" / "clipself_tiny"
BEFORE, AFTER = FOLDER / "clip_tiny_before.safetensors", FOLDER / "clipself_tiny_visual.safetensors"
CONFIG = str(FOLDER / "clip_tiny.json")
GOLDEN = ROOT / "tests" / "golden" / "clipself"


def job(checkpoint: Path, **options: Any) -> DetectJob:
    return DetectJob(**{"checkpoint": checkpoint, "config": CONFIG, "name": "x", **options})


@pytest.fixture(scope="module")
def artifact(clips_home: Path) -> Artifact:
    return read_artifact(clips_home / "models" / "clipself-tiny" / "1")


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    return {name: tensor.float() for name, tensor in load_file(BEFORE).items()}


def golden_state(case: str) -> dict[str, torch.Tensor]:
    arrays = load_file(GOLDEN / f"{case}.safetensors")
    return {name.removeprefix("state."): t for name, t in arrays.items() if name.startswith("state.")}


def golden_config(case: str, folder: Path) -> str:
    file = folder / f"{case}.json"
    file.write_text(json.dumps(json.loads((GOLDEN / f"{case}.json").read_bytes())["config"]))
    return str(file)


def test_the_certificate_covers_batches_of_1_and_7_at_two_sizes(artifact: Artifact) -> None:
    certificate = artifact.read_json("parity.json")
    names = [case["name"] for case in certificate["cases"]]
    for batch in (1, 7):
        for side in (64, 128):
            assert f"vision {batch} x {side} px: dense" in names
            assert f"image {batch} x {side} px: image" in names
        assert f"text, {batch} prompts: text" in names
    assert any(name.startswith("pipeline") for name in names)
    assert certificate["verdict"] == "ok"
    assert certificate["max_abs"] < 5e-6


def test_the_manifest_says_whose_weights_they_are_and_what_they_may_be_used_for(artifact: Artifact) -> None:
    manifest = artifact.manifest
    assert manifest.family == "detect"
    assert manifest.official.repository == "wusize/CLIPSelf"
    assert "non-commercial" in manifest.official.licence
    assert manifest.paper.venue == "ICLR 2024"
    assert any("text tower" in note and "clip_tiny_before" in note for note in manifest.source.notes)
    assert manifest.settings["size"] == 192
    assert manifest.settings["templates"][0] == "a photo of a {}."
    assert not any(name.endswith((".pt", ".pth", ".pkl")) for name in manifest.files)


def test_the_exported_graph_has_fused_attention_and_no_paths(artifact: Artifact) -> None:
    raw = artifact.file("vision.onnx").read_bytes()
    assert raw.count(b"MultiHeadAttention") >= 3
    for trace in (b"/work", b"site-packages", str(ROOT).encode()):
        assert trace not in raw


NO_TORCH = """
import sys
sys.modules["torch"] = None  # importing it fails
import services.detection.model, services.detection.label_book
from export.artifact import open_artifact
from pressroom.verify_detect import verify_detect
sys.exit(verify_detect(open_artifact("clipself-tiny"), as_json=True))
"""


def test_serving_and_verifying_need_no_torch(clips_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH], cwd=ROOT, env=clean_environment(clips_home), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["holds"]
    assert len(found["cases"]) >= 12
    assert found["example"]["max_abs"] < 1e-4


def test_inspect_shows_the_licence(clips_home: Path) -> None:
    done = subprocess.run(
        [PRESSROOM, "inspect", "clipself-tiny"],
        env=clean_environment(clips_home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "non-commercial" in done.stdout
    assert "vision.onnx" in done.stdout


def test_a_damaged_graph_is_named(clips_home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "home"
    shutil.copytree(clips_home, copy)
    graph = copy / "models" / "clip-tiny" / "1" / "text.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")
    done = subprocess.run(
        [PRESSROOM, "verify", "clip-tiny"], env=clean_environment(copy), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "text.onnx" in done.stderr


@pytest.mark.parametrize("wrap", ["plain", "training", "parallel"])
def test_official_files_are_told_apart_by_their_names(
    wrap: str, state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """A bare state dict, CLIPSelf's {epoch, name, state_dict, optimizer}, and one behind `module.`."""
    file = tmp_path / "checkpoint.pt"
    named = {f"module.{name}": t for name, t in state.items()} if wrap == "parallel" else state
    whole = {"epoch": 6, "name": "run", "state_dict": named, "optimizer": {}} if wrap != "plain" else named
    torch.save(whole, file)
    opened = open_job(job(file))
    assert opened.kind == "clipself"
    assert opened.text is not None
    assert opened.image is None
    assert opened.scale == pytest.approx(float(state["logit_scale"].exp()))


def test_an_openai_layout_and_its_integers_are_read(tmp_path: Path) -> None:
    file, plain = tmp_path / "openai.pt", golden_state("openai_vit_tiny")
    numbers = {
        "input_resolution": torch.tensor(64),
        "context_length": torch.tensor(24),
        "vocab_size": torch.tensor(512),
    }
    torch.save({**plain, **numbers}, file)
    opened = open_job(job(file, config=golden_config("openai_vit_tiny", tmp_path)))
    assert opened.visual.config.variant == "openai"
    assert opened.visual.config.quick_gelu
    assert opened.text is None  # its 512 tokens are not CLIP's
    assert any("512 tokens" in note for note in opened.source.notes)


def test_a_detector_brings_its_vocabulary_and_takes_a_text_tower(tmp_path: Path) -> None:
    file = tmp_path / "fvit.pth"
    torch.save({"meta": {"epoch": 3}, "state_dict": golden_state("fvit_tiny")}, file)
    opened = open_job(job(file, config=golden_config("fvit_tiny", tmp_path)))
    assert opened.kind == "fvit"
    assert opened.vocabulary is not None
    assert opened.vocabulary.names == ("cat", "dog", "traffic light", "umbrella", "car", "zebra")
    assert opened.vocabulary.base == (True, False, False, False, True, True)
    assert opened.vocabulary.background is not None


def test_a_detector_of_unnamed_labels_keeps_its_background(tmp_path: Path) -> None:
    file, state = tmp_path / "fvit.safetensors", golden_state("fvit_tiny")
    save_file(state, file)
    document = json.loads(Path(golden_config("fvit_tiny", tmp_path)).read_bytes())
    del document["classes"]
    config = tmp_path / "unnamed.json"
    config.write_text(json.dumps(document))
    found = open_job(job(file, config=str(config))).vocabulary
    assert found is not None
    assert found.names == ()
    torch.testing.assert_close(found.background, state["roi_head.bbox_head.all_embeddings"][:, -1])


def test_torchscript_is_refused_with_a_hint(tmp_path: Path) -> None:
    file = tmp_path / "ViT-B-16.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would have no new ones made
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    with pytest.raises(CheckpointFileError, match="TorchScript") as refusal:
        open_job(job(file))
    assert "state_dict" in refusal.value.hint


def test_what_does_not_fit_is_refused_with_the_way_out(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    with pytest.raises(OptionError, match="no text tower") as refusal:
        open_job(job(AFTER))
    assert "--clip" in refusal.value.hint
    with pytest.raises(CheckpointFileError, match=r"blocks\.4.*missing"):
        open_job(job(BEFORE, config="EVA02-CLIP-B-16"))
    with pytest.raises(OptionError, match="neither a file"):
        open_job(job(BEFORE, config="EVA02-CLIP-XXL"))
    with pytest.raises(OptionError, match="--blend"):
        job(BEFORE, blend=0.5)
    other = tmp_path / "other.safetensors"
    save_file({"vision_model.encoder.weight": torch.zeros(3, 3)}, other)
    with pytest.raises(CheckpointFileError) as unknown:
        open_job(job(other))
    assert "transformers" in unknown.value.hint
    labels = tmp_path / "labels.pt"
    torch.save({"cat": torch.ones(64), "dog": torch.ones(64)}, labels)
    with pytest.raises(CheckpointFileError) as embeddings:
        open_job(job(labels))
    assert "--embeddings" in embeddings.value.hint


def test_another_normalisation_is_refused(tmp_path: Path) -> None:
    document = json.loads(Path(CONFIG).read_bytes())
    document["normalise"]["mean"] = [0.5, 0.5, 0.5]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(document))
    with pytest.raises(HyperParameterError, match=r"normalise\.mean"):
        read_config(str(file))


def test_known_configurations_have_the_published_numbers_of_parameters() -> None:
    """Image towers of CLIP B/16 and L/14, EVA-02's: counted from the shapes without making them."""
    from models.clipself.clip import build_tower

    counts = {}
    with torch.device("meta"):
        for name in ("ViT-B-16", "ViT-L-14", "EVA02-CLIP-B-16", "EVA02-CLIP-L-14-336"):
            tower = build_tower(parse_config(KNOWN[name]).vision)
            counts[name] = round(sum(p.numel() for p in tower.parameters()) / 1e6)
    assert counts == {"ViT-B-16": 86, "ViT-L-14": 304, "EVA02-CLIP-B-16": 86, "EVA02-CLIP-L-14-336": 304}


def test_a_blend_lies_between_both_weights() -> None:
    both = {share: open_job(job(AFTER, clip=BEFORE, blend=share)) for share in (0.0, 0.25, 1.0)}
    name = "blocks.1.mlp.contract.weight"
    weights = {}
    for share, opened in both.items():
        assert opened.image is not None
        weights[share] = opened.image.state_dict()[name]
    torch.testing.assert_close(weights[0.25], 0.75 * weights[0.0] + 0.25 * weights[1.0])
    torch.testing.assert_close(weights[1.0], both[1.0].visual.state_dict()[name])
    assert "0.25" in both[0.25].whole_image


def test_embedding_files_of_every_form_are_read(tmp_path: Path) -> None:
    rows = torch.randn(3, 8)
    torch.save(dict(zip(("cat", "dog", "background"), rows, strict=True)), tmp_path / "e.pt")
    np.save(tmp_path / "e.npy", rows.numpy())
    save_file({"cat": rows[0].clone(), "dog": rows[1].clone()}, tmp_path / "e.safetensors")
    for name, names in (("e.pt", None), ("e.npy", ["cat", "dog"]), ("e.safetensors", None)):
        found = read_embeddings(tmp_path / name, names, ["cat"])
        assert found.names == ("cat", "dog")
        assert found.base == (True, False)
        torch.testing.assert_close(found.embeddings, rows[:2])
        assert (found.background is None) == (name == "e.safetensors")
    with pytest.raises(OptionError, match="no label names"):
        read_embeddings(tmp_path / "e.npy", None, None)
    with pytest.raises(OptionError, match="5 label names"):
        read_embeddings(tmp_path / "e.npy", list("abcde"), None)
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(CheckpointFileError):
        read_embeddings(tmp_path / "objects.npy", ["a"], None)


def test_a_breach_fails_the_export() -> None:
    right = np.linspace(-1, 1, 50, dtype=np.float32)
    require([compare("dense", right + 1e-5, right)])
    for wrong in (right + 1e-3, right[:-1], np.where(right > 0.9, np.nan, right)):
        with pytest.raises(ParityError, match="nothing was stored"):
            require([compare("dense", wrong, right)])
    assert compare("spread", 100 * right, 100 * right + 1e-3).holds  # in units of the output's spread
    assert isinstance(compare("nothing", right[:0], right[:0]), CaseResult)


def test_the_command_says_what_is_wrong_and_stores_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [PRESSROOM, "export", "detect", str(AFTER), "--config", CONFIG, "--name", "x"],
        env=clean_environment(home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--clip" in done.stderr
    assert not list((home / "models").glob("*")) if os.path.exists(home / "models") else True
    assert issubclass(OptionError, ExportError)
