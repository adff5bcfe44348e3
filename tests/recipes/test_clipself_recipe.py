"""The CLIPSelf recipe: what it learns from, that it learns, that it goes on where it stopped, what it writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from models.clipself.checkpoint import translate
from recipes.clipself.__main__ import CHECKPOINT, DOCUMENT, distil, main
from recipes.clipself.distil import blend, distillation_loss, draw_batch, learning_rate, start, train
from recipes.clipself.images import ImageFolder, Sample
from recipes.clipself.judge import judge
from recipes.clipself.official import Original, read_original
from recipes.clipself.regions import patch_grid, regions_of
from recipes.clipself.scenes import Scenes
from recipes.clipself.settings import Settings, SettingsError, Training, read_settings
from recipes.common import generator

ROOT = Path(__file__).parents[2]
TINY = ROOT / "data/checkpoints/clipself_tiny"
SHEET, PHOTOGRAPHS = ROOT / "data/artwork/emoji.webp", ROOT / "data/photographs"
FEW = Training(image_size=96, steps=6, batch_size=3, boxes_per_image=3, warmup_steps=1, save_every=2)


@pytest.fixture(scope="module")
def settings() -> Settings:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        found = read_settings(ROOT / "recipes/clipself/drawn_scenes.toml")
    data = {name: ROOT / path for name, path in vars(found.data).items() if path is not None}
    return replace(found, data=replace(found.data, **data), training=FEW)


@pytest.fixture(scope="module")
def original(settings: Settings) -> Original:
    return read_original(settings.data)


def test_before_and_after_weights_score_what_they_are_published_with(settings: Settings, original: Original) -> None:
    assert judge(original, original.network.visual, TINY / "scenes", 192) == pytest.approx(15 / 285)
    after = original.state | load_file(TINY / "clipself_tiny_visual.safetensors")
    tower = read_original(settings.data).network
    tower.load_state_dict(translate(after, original.config).state)
    assert judge(original, tower.visual, TINY / "scenes", 192) == pytest.approx(152 / 285)


def test_a_few_steps_lower_the_loss_on_scenes_they_did_not_see(original: Original) -> None:
    plan = replace(FEW, steps=12, batch_size=6, warmup_steps=2)
    teacher, run = original.network.visual, start(original.network.visual, plan)
    source = scenes_source()
    unseen = draw_batch(source, replace(plan, seed=99, batch_size=16), 64, 0)
    before = distillation_loss(run.student, teacher, unseen).item()
    train(run, teacher, source, plan, lambda run, loss: None)
    assert distillation_loss(run.student, teacher, unseen).item() < 0.9 * before


def test_the_teacher_and_what_the_dense_map_does_not_read_stay_as_they_were(original: Original) -> None:
    teacher = original.network.visual
    kept = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    run = start(teacher, FEW)
    train(run, teacher, scenes_source(), replace(FEW, steps=2), lambda run, loss: None)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in teacher.state_dict().items())
    still = {name for name, tensor in run.student.state_dict().items() if torch.equal(tensor, kept[name])}
    assert still == {
        "blocks.3.attention.query.weight",
        "blocks.3.attention.query.bias",
        "blocks.3.attention.key.weight",
    }
    half = blend(run.student, teacher, 0.5)["norm.weight"]
    assert torch.allclose(half, (kept["norm.weight"] + run.student.state_dict()["norm.weight"]) / 2)


def test_the_loss_is_one_minus_the_mean_cosine_of_region_and_crop(original: Original) -> None:
    """By hand, where RoIAlign is an average of whole cells: the region is the image, and the map has 4 x 4 cells."""
    teacher = original.network.visual
    pixels = np.asarray(Image.open(PHOTOGRAPHS / "astronaut.jpg").resize((64, 64)))

    class One:
        def draw(self, random: np.random.Generator) -> Sample:
            return Sample(pixels, np.array([[0, 0, 64, 64]], np.float32))

    plan = replace(FEW, image_size=64, batch_size=1, regions="proposals")
    batch = draw_batch(One(), plan, 64, 0)
    with torch.inference_mode():
        pooled, target = teacher.dense(batch.images).mean(dim=(2, 3)), teacher(batch.crops)
        expected = 1 - torch.cosine_similarity(pooled, target).item()
        assert distillation_loss(teacher, teacher, batch).item() == pytest.approx(expected, abs=1e-6)


def test_an_interrupted_run_ends_in_the_same_bits(settings: Settings, tmp_path: Path, capsys: Any) -> None:
    whole = distil(settings, tmp_path / "whole")
    assert distil(settings, tmp_path / "parts", until=3) is None
    assert not (tmp_path / "parts" / CHECKPOINT).exists()
    parts = distil(settings, tmp_path / "parts")
    assert (tmp_path / "whole" / CHECKPOINT).read_bytes() == (tmp_path / "parts" / CHECKPOINT).read_bytes()
    assert whole is not None
    assert parts is not None
    assert whole["training"]["box_top1"] == parts["training"]["box_top1"]
    with pytest.raises(SettingsError, match="other settings"):
        distil(replace(settings, training=replace(FEW, seed=1)), tmp_path / "parts")
    said = capsys.readouterr().out
    assert "stopped after step 3 of 6" in said
    assert f"pressroom export detect {tmp_path / 'whole' / CHECKPOINT} --name clipself-drawn" in said


def test_the_result_has_the_official_layout_and_another_image_tower(
    settings: Settings, original: Original, tmp_path: Path
) -> None:
    distil(replace(settings, training=replace(FEW, steps=1)), tmp_path)
    made = load_file(tmp_path / CHECKPOINT)
    assert made.keys() == original.state.keys()
    for name, tensor in original.state.items():
        assert (made[name].dtype, made[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(made[name], tensor) or name.startswith("visual.")
    assert not torch.equal(made["visual.head.weight"], original.state["visual.head.weight"])
    document = json.loads((tmp_path / DOCUMENT).read_text())
    assert document["labels"] == original.document["labels"]
    assert document["training"]["method"] == "CLIPSelf"


def test_a_scene_follows_from_its_generator_and_its_boxes_frame_what_was_drawn() -> None:
    scenes = Scenes(SHEET, [], 192)
    one, same, other = (scenes.draw(generator(0, step)) for step in (1, 1, 2))
    assert np.array_equal(one.pixels, same.pixels)
    assert np.array_equal(one.boxes, same.boxes)
    assert not np.array_equal(one.pixels, other.pixels)
    assert len(one.labels) == len(one.boxes)
    assert one.labels.max() < scenes.classes == 40
    rows = one.pixels.astype(int)
    outside = np.ones((192, 192), bool)
    for x0, y0, x1, y1 in one.boxes.astype(int):
        assert 0 <= x0 < x1 <= 192
        assert 0 <= y0 < y1 <= 192
        outside[y0:y1, x0:x1] = False
    spread = [np.ptp(rows[y][outside[y]], axis=0).max() for y in range(192) if outside[y].any()]
    assert max(spread) < 100  # a gradient is even along a row, noise apart: nothing is drawn outside the boxes


def test_patches_tile_the_image() -> None:
    assert patch_grid(20, 30, 2, 3).tolist() == [
        [0, 0, 10, 10],
        [10, 0, 20, 10],
        [20, 0, 30, 10],
        [0, 10, 10, 20],
        [10, 10, 20, 20],
        [20, 10, 30, 20],
    ]


def test_proposals_are_clipped_and_slivers_give_way_to_patches() -> None:
    pixels = np.zeros((40, 60, 3), np.uint8)
    plan = replace(FEW, regions="proposals", boxes_per_image=8)
    found = regions_of(Sample(pixels, np.array([[-5, 5, 30, 90], [10, 10, 12, 30]], np.float32)), plan, generator(0, 0))
    assert found.tolist() == [[0, 5, 30, 40]]
    only_slivers = regions_of(Sample(pixels, np.array([[10, 10, 12, 30]], np.float32)), plan, generator(0, 0))
    areas = (only_slivers[:, 2] - only_slivers[:, 0]) * (only_slivers[:, 3] - only_slivers[:, 1])
    assert (areas >= 40 * 60 / 36 - 1e-3).all()


def test_a_folder_s_boxes_are_mirrored_with_its_images(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    pixels = np.zeros((8, 10, 3), np.uint8)
    pixels[2:5, 1:4] = 255
    Image.fromarray(pixels).save(tmp_path / "sub/one.png")
    (tmp_path / "proposals.json").write_text('{"sub/one.png": [[1, 2, 4, 5]]}')
    seen = set()
    for step in range(20):
        sample = ImageFolder(tmp_path).draw(generator(0, step))
        (x0, y0, x1, y1) = sample.proposals[0].astype(int)
        assert (sample.pixels[y0:y1, x0:x1] == 255).all()
        assert (sample.pixels == 255).sum() == 27
        seen.add(x0)
    assert seen == {1, 6}


def test_a_folder_of_photographs_can_be_distilled_on(settings: Settings, tmp_path: Path) -> None:
    data = replace(settings.data, artwork=None, photographs=None, scenes=None, images=PHOTOGRAPHS)
    document = distil(replace(settings, data=data, training=replace(FEW, steps=1, regions="both")), tmp_path)
    assert document is not None
    assert "box_top1" not in document["training"]


def test_the_learning_rate_rises_then_falls_to_nothing() -> None:
    plan = Training(image_size=64, steps=100, warmup_steps=10, learning_rate=0.5)
    rates = [learning_rate(plan, step) for step in range(101)]
    assert rates[:2] == [0.05, 0.1]
    assert max(rates) == rates[9] == rates[10] == 0.5
    assert rates[55] == pytest.approx(0.25)
    assert rates[100] == pytest.approx(0.0)


GOOD = """
[data]
checkpoint = "c"
config = "c"
images = "c"
[training]
image_size = 64
steps = 1
"""
REFUSED = [
    ("steps = 1", "steps = 0", "training.steps: got 0"),
    ("steps = 1", "steps = 1.5", "training.steps: got 1.5, expected a whole number"),
    ("steps = 1", "", "missing 1 required keyword-only argument: 'steps'"),
    ("steps = 1", "stepz = 1", "training.stepz: unknown"),
    ('images = "c"', "", "data: name either images"),
    ('images = "c"', 'images = "nowhere"', "data.images: there is no nowhere"),
    ("steps = 1", 'steps = 1\nregions = "none"', "training.regions: got 'none'"),
    ("[training]", "[trainings]", "trainings: unknown"),
    ("image_size = 64", "image_size = ", "cannot be read"),
]


@pytest.mark.parametrize(("found", "put", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_settings_that_make_no_sense_are_refused_by_name(
    found: str, put: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").touch()
    Path("good.toml").write_text(GOOD)
    assert read_settings(Path("good.toml")).name == "good"
    Path("bad.toml").write_text(GOOD.replace(found, put))
    with pytest.raises(SettingsError) as caught:
        read_settings(Path("bad.toml"))
    assert message in str(caught.value)


def test_the_command_refuses_with_a_sentence(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "recipes/clipself/drawn_scenes.toml").read_text().replace("image_size = 192", "image_size = 100")
    (tmp_path / "odd.toml").write_text(text)
    assert main([str(tmp_path / "odd.toml"), "--out", str(tmp_path)]) == 2
    assert "got 100, expected a multiple of the patch size 16" in capsys.readouterr().err


def scenes_source() -> Any:
    from recipes.clipself.images import DrawnScenes

    return DrawnScenes(Scenes(SHEET, sorted(PHOTOGRAPHS.glob("*.jpg")), 96))
