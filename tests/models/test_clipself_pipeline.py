"""The torch-free pipeline against the torch networks it must agree with, closed forms and naive programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from models.clipself import position
from models.clipself.fvit import boxes as torch_boxes
from models.clipself.fvit import checkpoint
from models.clipself.fvit.config import FvitConfig, parse_fvit
from models.clipself.fvit.network import Fvit, build
from models.clipself.labels import OFFICIAL, TEMPLATES, is_template, prompts
from models.clipself.pipeline import detector, maps, masks, run_lengths, suppression, tables, windows
from models.clipself.pipeline.boxes import read_boxes
from models.clipself.pipeline.network_input import prepare
from models.clipself.pipeline.spec import DetectorSpec, Fusion
from models.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden" / "clipself"
generator = np.random.default_rng(11)


@pytest.mark.parametrize("grid", [(4, 4), (8, 8), (3, 5), (2, 8), (7, 4), (1, 1), (13, 13)])
def test_positions_are_resampled_as_torch_does(grid: tuple[int, int]) -> None:
    learned = torch.randn(17, 6, generator=torch.Generator().manual_seed(1))
    expected = position.resample_positions(learned, 4, grid)[1:].reshape(*grid, 6)
    made = tables.PositionTables(learned.numpy(), 8, 16).of(grid)
    np.testing.assert_allclose(made["position"], expected.numpy(), atol=3e-6)
    cosine, sine = position.rotary_table(8, grid, 16)
    np.testing.assert_allclose(made["cosine"].reshape(-1, 8), cosine.numpy(), atol=2e-6)
    np.testing.assert_allclose(made["sine"].reshape(-1, 8), sine.numpy(), atol=2e-6)


def test_tables_of_few_grids_are_kept_and_a_2_by_8_grid_is_no_4_by_4() -> None:
    kept = tables.PositionTables(generator.standard_normal((17, 4), dtype=np.float32), 8, 16, kept=3)
    for side in range(1, 9):  # the official program asserts at the fifth or sixth
        kept.of((side, side))
    assert len(kept) == 3
    assert kept.of((8, 8))["position"] is kept.of((8, 8))["position"]
    assert not np.array_equal(kept.of((2, 8))["cosine"].reshape(16, 8), kept.of((4, 4))["cosine"].reshape(16, 8))


def test_suppression_agrees_with_the_torch_one() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        corners = rng.uniform(0, 20, (60, 2, 2)).astype(np.float32)
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        scores, groups = rng.random(60).round(1).astype(np.float32), rng.integers(0, 3, 60)
        kept = suppression.suppress(boxes, scores, groups, 0.3, 25)
        expected = torch_boxes.suppress(*map(torch.from_numpy, (boxes, scores, groups)), 0.3, 25)
        assert kept.tolist() == expected.tolist()


def test_soft_suppression_lowers_what_overlaps_and_leaves_the_rest() -> None:
    boxes = np.array([[0, 0, 2, 2], [1, 0, 3, 2], [10, 10, 12, 12], [0, 0, 2, 2]], dtype=np.float32)
    scores = np.array([0.9, 0.8, 0.7, 0.6], dtype=np.float32)
    kept, left = suppression.soften(boxes, scores, np.array([0, 0, 0, 1]), 0.01, 10)
    assert kept.tolist() == [0, 2, 1, 3]  # a third of the union is common: 0.8 * exp(-(1/3)^2 / 0.5) = 0.6406
    np.testing.assert_allclose(left, [0.9, 0.7, 0.8 * np.exp(-2 / 9), 0.6], rtol=1e-6)


def test_anchors_and_corrections_agree_with_torch() -> None:
    made = detector.anchors((5, 3), 7.0, (8.0, 4.0), (0.5, 1.0, 2.0))
    expected = torch_boxes.anchors((5, 3), 7.0, (8.0, 4.0), (0.5, 1.0, 2.0))
    np.testing.assert_allclose(made, expected.numpy(), atol=1e-5)
    deltas = generator.standard_normal((len(made), 4), dtype=np.float32) * 5
    moved = detector.correct(made, deltas, (0.1, 0.1, 0.2, 0.2), (30, 20))
    theirs = torch_boxes.correct(expected, torch.from_numpy(deltas), (0.1, 0.1, 0.2, 0.2), (30, 20))
    np.testing.assert_allclose(moved, theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize("case", ["fvit_tiny", "fvit_transfer_tiny"])
def test_detections_of_the_official_program_follow_from_its_maps(case: str) -> None:
    """Proposals, fusion and selection in numpy, from the torch network's maps: the golden detections come out."""
    network, arrays = golden_fvit(case)
    valid = (int(arrays["input.img_shape"][0]), int(arrays["input.img_shape"][1]))
    fx, fy = (float(f) for f in arrays["input.scale_factor"][:2])
    with torch.inference_mode():
        maps_, _ = network.backbone(arrays["input.image"])
        found = network.proposals(network.pyramid(maps_))
        flags = arrays["input.is_base_class"]
        (judged,) = network.judge(arrays["input.image"], arrays["input.class_embeddings"], flags, [valid])
    grid = tuple(n // network.config.vision.patch_size for n in arrays["input.image"].shape[2:])
    spec = numpy_rules(network)
    scores, deltas = (torch.cat([level[i][0] for level in found]).numpy() for i in (0, 1))
    proposals = detector.Proposer(spec)(scores, deltas, grid, valid)  # type: ignore[arg-type]
    np.testing.assert_allclose(proposals, judged.proposals[:, :4].numpy(), atol=1e-3)

    everything = judged_again(network, arrays, judged.proposals[:, :4])
    fused = detector.fuse(everything, arrays["input.class_embeddings"].numpy(), flags.numpy().astype(bool), spec.fusion)
    wanted = detector.Selection(
        thresholds=np.full(fused.shape[1] - 1, spec.threshold, np.float32),
        overlap=spec.overlap, kept=spec.kept, agnostic=False,
    )  # fmt: skip
    kept = detector.select(spec, everything, fused, valid, (fx, fy), wanted)
    np.testing.assert_allclose(kept.boxes, arrays["output.detections"][:, :4].numpy(), atol=1e-2)
    np.testing.assert_allclose(kept.scores, arrays["output.detections"][:, 4].numpy(), atol=1e-3)
    assert kept.labels.tolist() == arrays["output.labels"].tolist()


def golden_fvit(case: str) -> tuple[Fvit, dict[str, torch.Tensor]]:
    config = parse_fvit(json.loads((GOLDEN / f"{case}.json").read_bytes())["config"])
    arrays = load_file(GOLDEN / f"{case}.safetensors")
    state = {name.removeprefix("state."): t for name, t in arrays.items() if name.startswith("state.")}
    network = build(config)
    network.load_state_dict(checkpoint.translate(state, config).state, strict=True)
    return network, arrays


def numpy_rules(network: Fvit) -> DetectorSpec:
    config: FvitConfig = network.config
    head, rules, chosen = config.head, config.proposals, config.selection
    novel = head.alpha if head.transfer else head.beta
    fusion = Fusion(
        temperature=float(network.head.temperature), vlm_temperature=head.vlm_temperature, base=head.alpha, novel=novel
    )
    return DetectorSpec(
        strides=config.strides, scales=config.scales, ratios=config.ratios, per_level=rules.per_level,
        proposals=rules.kept, proposal_overlap=rules.overlap, proposal_stds=rules.stds, transfer=head.transfer,
        fusion=fusion, threshold=chosen.threshold, overlap=chosen.overlap, kept=chosen.kept, stds=chosen.stds,
    )  # fmt: skip


def judged_again(network: Fvit, arrays: dict[str, torch.Tensor], proposals: torch.Tensor) -> detector.Judged:
    from models.clipself.fvit.head import cut_out
    from models.clipself.roi_align import roi_align

    with torch.inference_mode():
        maps_, dense = network.backbone(arrays["input.image"])
        owner = torch.zeros(len(proposals), dtype=torch.long)
        levels = network.pyramid(maps_)
        labels, deltas = network.head(cut_out(levels[:4], network.config.strides, proposals, owner))
        features = roi_align(dense, proposals, owner, 1, scale=1 / network.config.vision.patch_size).flatten(1)
    return detector.Judged(*(t.numpy() for t in (proposals, labels, deltas, features)))


def test_levels_follow_the_papers_rule() -> None:
    sides = np.array([1, 56, 111.9, 112.1, 224.1, 448.1, 4000], dtype=np.float32)
    boxes = np.stack([np.zeros(7), np.zeros(7), sides, sides], axis=1).astype(np.float32)
    assert detector.levels_of(boxes).tolist() == [0, 0, 0, 1, 2, 3, 3]


@pytest.mark.parametrize("size", [(24, 24), (50, 18), (7, 90)])
def test_maps_are_raised_as_torch_raises_them(size: tuple[int, int]) -> None:
    """Cells that fill the square: the same as torch's bilinear interpolation, and its argmax."""
    cosines = generator.standard_normal((5, 6, 4), dtype=np.float32)
    place = maps.MapPlace(size, (6.0, 4.0))
    expected = functional.interpolate(torch.from_numpy(cosines)[None], size=size, mode="bilinear")[0].numpy()
    made = np.concatenate([strip for _, strip in maps.strips(cosines, place)], axis=1)
    np.testing.assert_allclose(made, expected, atol=1e-5)
    assert (maps.labelled(cosines, place, 1.0, None) == expected.argmax(axis=0) + 1).all()


def test_a_padded_square_gives_the_map_of_its_picture_alone() -> None:
    cosines = np.zeros((2, 4, 4), dtype=np.float32)
    cosines[1, 2:] = 1  # the padding below says the other label
    values = maps.labelled(cosines, maps.MapPlace((8, 16), (2.0, 4.0)), 1.0, None)
    assert (values[:6] == 1).all()


def test_uncertain_pixels_are_background() -> None:
    cosines = np.array([[[0.0, 0.5]], [[0.0, 0.0]]], dtype=np.float32)
    values = maps.labelled(cosines, maps.MapPlace((1, 2), (1.0, 2.0)), 10.0, 0.9)  # 0.5 and 1 / (1 + e^-5) = 0.993
    assert values.tolist() == [[0, 1]]


def test_strips_do_not_change_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    cosines = generator.standard_normal((3, 5, 5), dtype=np.float32)
    whole = maps.labelled(cosines, maps.MapPlace((40, 30), (4.4, 5.0)), 5.0, 0.4)
    monkeypatch.setattr(maps, "STRIP", 3 * 30 * 7)
    assert (maps.labelled(cosines, maps.MapPlace((40, 30), (4.4, 5.0)), 5.0, 0.4) == whole).all()


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (40, 31)])
def test_run_lengths_come_back(shape: tuple[int, int]) -> None:
    for share in (0.0, 0.1, 0.5, 1.0):
        mask = generator.random(shape) < share
        written = run_lengths.encode_rle(mask)
        assert written["size"] == list(shape)
        assert (run_lengths.decode_rle(written["counts"], *shape) == mask).all()


def test_run_lengths_are_cocos() -> None:
    """Counts down the columns, the first run background; the text pycocotools writes for the same mask."""
    mask = np.zeros((4, 5), dtype=bool)
    mask[1:3, 1:4] = True
    assert (run_lengths.decode_rle([5, 2, 2, 2, 2, 2, 5], 4, 5) == mask).all()
    assert run_lengths.encode_rle(mask)["counts"] == "5220003"
    for counts in ([3], [21], [-1, 21], "~", "P", [1.5, 18.5], None):
        with pytest.raises(ValueError, match=r"\w"):
            run_lengths.decode_rle(counts, 4, 5)


@pytest.mark.parametrize(("height", "width", "side"), [(30, 50, 64), (64, 64, 64), (7, 5, 64), (200, 90, 48)])
def test_a_cell_counts_where_any_pixel_of_the_mask_reaches_into_it(height: int, width: int, side: int) -> None:
    image = prepare(np.zeros((height, width, 3), dtype=np.uint8), side, detector=False)
    fx, fy = image.factors
    for _ in range(3):
        mask = generator.random((height, width)) < 0.05
        expected = np.zeros((side // 16, side // 16), dtype=bool)
        for y, x in zip(*np.nonzero(mask), strict=True):
            rows = slice(int((y * fy + 1e-4) // 16), int(((y + 1) * fy - 1e-4) // 16) + 1)
            expected[rows, int((x * fx + 1e-4) // 16) : int(((x + 1) * fx - 1e-4) // 16) + 1] = True
        assert (masks.cells(mask, image, 16) == expected).all()


def test_polygons_take_the_pixels_whose_centres_they_cover() -> None:
    square = masks.read_mask({"polygons": [[2, 1, 6, 1, 6, 4, 2, 4]]}, 10, 8, "masks[0]")
    assert masks.bounds(square).tolist() == [2, 1, 6, 4]
    assert square.sum() == 12
    two = masks.read_mask({"polygons": [[0.4, 0.4, 1.4, 0.4, 1.4, 1.4, 0.4, 1.4], [7, -5, 30, -5, 30, 30]]}, 10, 8, "m")
    assert two[0, 0]
    assert not two[1, 1]
    naive = [[x + 0.5 > 7 + (y + 0.5 + 5) * 23 / 35 for x in range(10)] for y in range(8)]
    assert (two[:, 2:] == np.array(naive)[:, 2:]).all()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (None, "object"),
        ({}, "nothing"),
        ({"size": [8, 9], "counts": [72]}, r"\[8, 10\]"),
        ({"size": [8, 10], "counts": [80]}, "no pixel"),
        ({"size": [8, 10], "counts": "ab~~"}, "run lengths"),
        ({"polygons": [[1, 2, 3]]}, "polygon"),
        ({"polygons": [[50, 50, 60, 50, 60, 60]]}, "no pixel"),
        ({"png": "AAAA"}, "PNG"),
        ({"png": 3}, "PNG"),
    ],
)
def test_a_mask_that_cannot_be_used_is_refused_by_its_place(entry: object, says: str) -> None:
    with pytest.raises(InputError, match=says) as refusal:
        masks.read_mask(entry, 10, 8, "masks[3]")
    assert refusal.value.code == "mask_invalid"
    assert refusal.value.field == "masks[3]"


def test_boxes_beyond_the_image_are_clipped_and_said_to_be() -> None:
    sent = [[1, 2, 3, 4], [-5, 1, 200, 8], {"xmin": 0, "ymin": 0, "xmax": 10, "ymax": 8}]
    boxes, clipped = read_boxes(sent, 10, 8)
    assert boxes.tolist() == [[1, 2, 3, 4], [0, 1, 10, 8], [0, 0, 10, 8]]
    assert clipped.tolist() == [False, True, False]


@pytest.mark.parametrize(
    "box",
    [
        [3, 2, 1, 4], [1, 4, 3, 2], [1, 2, 1, 4], [1, 2, 3, 2], [10, 0, 12, 4], [-4, 0, 0, 4], [0, 8, 4, 9],
        [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, float("nan")], [1, 2, float("inf"), 4], [1, 2, 10**400, 4],
        ["1", 2, 3, 4], [True, 0, 3, 4], None, "box", {"xmin": 1, "ymin": 2, "xmax": 3}, {"x": 1},
    ],
)  # fmt: skip
def test_a_box_that_means_nothing_is_refused_by_its_index(box: object) -> None:
    with pytest.raises(InputError) as refusal:
        read_boxes([[0, 0, 1, 1], box], 10, 8)
    assert refusal.value.code == "box_invalid"
    assert refusal.value.field == "boxes[1]"


def test_windows_lie_inside_the_image_and_reach_its_corners() -> None:
    for width, height in ((192, 192), (640, 90), (5, 3), (1, 1)):
        made = windows.windows(width, height)
        assert (made[:, :2] >= -1e-3).all()
        assert (made[:, 2] <= width + 1e-2).all()
        assert (made[:, 3] <= height + 1e-2).all()
        assert (made[:, 2:] > made[:, :2]).all()
        assert 1 <= len(made) <= windows.MOST
        assert made[:, 2].max() == pytest.approx(width, abs=0.02)
        assert made[:, 1].min() == pytest.approx(0, abs=0.02)


def test_prompts_of_the_paper_are_unchanged_as_literal_templates() -> None:
    """The prefix stands before prompts that begin with a or the, as the official evaluation writes them."""
    for label in ("umbrella", "traffic_light"):
        plain = label.replace("_", " ")
        article = "an" if plain[0] in "aeiou" else "a"
        expected = [t.replace("{article}", article).replace("{}", plain) for t in TEMPLATES]
        expected = [f"This is {t}" if t.startswith(("a", "the")) else t for t in expected]
        assert prompts(label, OFFICIAL) == expected


def test_a_template_is_no_program() -> None:
    assert is_template("a photo of {article} {}.")
    assert is_template("{}")
    for text in ("no place", "{} and {}", "{0}", "{.__class__}", "{:>99999999}", "{", "{} }", "{name} {}", "{{}}"):
        assert not is_template(text), text
    assert prompts("{article} {} {0.__class__}", ("a {}",)) == ["a {article} {} {0.  class  }"]
