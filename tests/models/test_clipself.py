"""CLIPSelf's towers, regions, F-ViT, image preparation and tokenizer answer as the official programs did."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from torch import Tensor

import models.clipself.eva
from export.golden.case import read_case
from export.golden.clipself import run
from models.clipself import checkpoint
from models.clipself.clip import build
from models.clipself.config import ClipConfigError, parse_config
from models.clipself.fvit.boxes import suppress
from models.clipself.fvit.config import parse_fvit
from models.clipself.labels import TEMPLATES, label_text, prompts
from models.clipself.position import rotary_table
from models.clipself.regions import mask_features
from models.clipself.roi_align import roi_align
from models.clipself.tokenizer import ClipTokenizer
from models.statedict import CheckpointError

GOLDEN = Path(__file__).parents[1] / "golden" / "clipself"
CASES = sorted(GOLDEN.glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_output_is_within_the_stated_tolerance(path: Path) -> None:
    case = read_case(path)
    results = run(case)
    expected = len(case.document["cases"]) if "cases" in case.document else len(case.group("output"))
    assert len(results) == expected
    assert [r for r in results if r.verdict != "ok"] == []


def test_another_norm_epsilon_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.clipself.eva, "EPS", 1e-2)
    assert any(r.verdict == "fail" for r in run(read_case(GOLDEN / "eva_tiny_hires.json")))


def reference_roi_align(features: Tensor, boxes: Tensor, image: Tensor, size: int, samples: int) -> np.ndarray:
    """onnxruntime's own operator."""
    node = helper.make_node(
        "RoiAlign",
        ["x", "rois", "batch"],
        ["y"],
        output_height=size,
        output_width=size,
        sampling_ratio=samples,
        spatial_scale=1.0,
        mode="avg",
        coordinate_transformation_mode="half_pixel",
    )
    kinds = (("x", TensorProto.FLOAT), ("rois", TensorProto.FLOAT), ("batch", TensorProto.INT64))
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": features.numpy(), "rois": boxes.numpy(), "batch": image.numpy()})[0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1, 2, 7]), samples=st.sampled_from([0, 1, 3]))
def test_roi_align_is_onnxruntimes_also_outside_the_map(seed: int, size: int, samples: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(2, 3, 9, 11, generator=generator)
    corners = torch.rand(6, 4, generator=generator) * 20 - 5
    boxes = torch.stack(
        [
            torch.minimum(corners[:, 0], corners[:, 2]),
            torch.minimum(corners[:, 1], corners[:, 3]),
            torch.maximum(corners[:, 0], corners[:, 2]),
            torch.maximum(corners[:, 1], corners[:, 3]),
        ],
        dim=-1,
    )
    image = torch.arange(6) % 2
    got = roi_align(features, boxes, image, size, samples=samples)
    np.testing.assert_allclose(got, reference_roi_align(features, boxes, image, size, samples), atol=2e-5)


def test_no_boxes_are_no_features() -> None:
    none = roi_align(torch.ones(1, 3, 4, 4), torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), 1)
    assert none.shape == (0, 3, 1, 1)


def test_a_mask_without_cells_has_no_feature_and_disturbs_no_other() -> None:
    dense = torch.randn(1, 4, 3, 3, generator=torch.Generator().manual_seed(1))
    masks = torch.stack([torch.zeros(3, 3), torch.eye(3)])
    found = mask_features(dense, masks, torch.zeros(2, dtype=torch.long))
    assert not found[0].any()
    mean = torch.stack([dense[0, :, i, i] for i in range(3)]).mean(0)
    torch.testing.assert_close(found[1], mean / mean.norm())


def test_rectangular_grids_have_a_rotary_table_of_their_own() -> None:
    cosine, _ = rotary_table(8, (2, 8), 16)
    square, _ = rotary_table(8, (4, 4), 16)
    assert cosine.shape == square.shape
    assert not torch.equal(cosine, square)
    torch.testing.assert_close(cosine[8, :4], torch.cos(torch.tensor([8.0, 8.0, 0.08, 0.08])))  # second row of two


def tiny(**vision: object) -> dict[str, object]:
    sizes = {"image_size": 32, "layers": 2, "width": 16, "head_width": 8, "patch_size": 16, "eva_model_name": "tiny"}
    text = {"context_length": 8, "vocab_size": 64, "width": 8, "heads": 2, "layers": 1}
    return {"embed_dim": 12, "vision_cfg": {**sizes, **vision}, "text_cfg": text}


@pytest.mark.parametrize("variant", ["eva", "openai"])
@pytest.mark.parametrize("shape", [(32, 32), (48, 32), (16, 80)])
def test_any_size_of_input_gives_a_map_of_its_patches(variant: str, shape: tuple[int, int]) -> None:
    network = build(parse_config(tiny(), variant))
    generator = torch.Generator().manual_seed(1)
    for parameter in network.visual.parameters():
        torch.nn.init.normal_(parameter, std=0.2, generator=generator)
    pixels = torch.randn(2, 3, *shape, generator=generator)
    dense = network.visual.dense(pixels)
    assert dense.shape == (2, 12, shape[0] // 16, shape[1] // 16)
    torch.testing.assert_close(dense.norm(dim=1), torch.ones(2, shape[0] // 16, shape[1] // 16))
    torch.testing.assert_close(network.visual.dense(pixels[1:]), dense[1:], atol=1e-6, rtol=1e-5)


def test_the_layout_is_recognised_by_its_tensors() -> None:
    for name, variant in (("eva_tiny_hires", "eva"), ("openai_vit_tiny", "openai")):
        assert checkpoint.variant_of(read_case(GOLDEN / f"{name}.json").group("state")) == variant
    assert checkpoint.variant_of({"linear.weight": torch.zeros(1)}) is None


def test_a_contradicting_width_is_named() -> None:
    case = read_case(GOLDEN / "openai_vit_tiny.json")
    config = parse_config({**case.config, "vision_cfg": {**case.config["vision_cfg"], "width": 32}})
    with pytest.raises(CheckpointError, match="check width"):
        checkpoint.translate(case.group("state"), config)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"embed_dim": 0}, "embed_dim"),
        ({"vision_cfg": None}, "vision_cfg"),
        (tiny(head_width=5), "head_width"),
        (tiny(layers="two"), "layers"),
    ],
)
def test_an_unusable_configuration_is_refused_by_field(broken: dict[str, object], named: str) -> None:
    with pytest.raises(ClipConfigError, match=named):
        parse_config({**tiny(), **broken})
    with pytest.raises(ClipConfigError):
        parse_fvit({"clip": {**tiny(), **broken}})


def test_the_templates_are_the_published_ones() -> None:
    stated = read_case(GOLDEN / "eva_tiny_native.json").document["ensemble"]["sha256_of_newline_joined_templates"]
    assert hashlib.sha256("\n".join(TEMPLATES).encode()).hexdigest() == stated


def test_a_label_cannot_cut_its_prompt() -> None:
    assert label_text("Traffic_light<END_of_text>.") == "traffic light"
    assert label_text("cabinet/shelf") == "cabinet or shelf"
    tokenizer = ClipTokenizer()
    ids = tokenizer([prompts("cat <end_of_text> dog")[8]])[0]
    assert list(ids).count(49407) == 1
    assert prompts("umbrella")[0] == "There is an umbrella in the scene."


def naive_suppression(boxes: np.ndarray, scores: np.ndarray, groups: np.ndarray, overlap: float) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        clear = True
        for j in kept:
            width = min(boxes[i][2], boxes[j][2]) - max(boxes[i][0], boxes[j][0])
            height = min(boxes[i][3], boxes[j][3]) - max(boxes[i][1], boxes[j][1])
            common = max(width, 0) * max(height, 0)
            area = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (boxes[i], boxes[j])) - common
            clear &= groups[i] != groups[j] or common <= overlap * area
        if clear:
            kept.append(i)
    return kept


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(0, 25))
def test_suppression_keeps_what_a_plain_loop_keeps(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=generator).double()
    boxes = torch.cat([low, low + torch.rand(count, 2, generator=generator)], dim=-1)
    scores, groups = torch.rand(count, generator=generator), torch.randint(0, 3, (count,), generator=generator)
    kept = suppress(boxes, scores, groups, 0.4, 10)
    assert kept.tolist() == naive_suppression(boxes.numpy(), scores.numpy(), groups.numpy(), 0.4)[:10]
