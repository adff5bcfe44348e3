"""The client against the real server: published accuracy, photographs, images in every form, refusals by name."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import LiveServer
from PIL import Image
from pressroom_client import AsyncClient, BoxInvalid, Client, ImageTooLarge, LabelInvalid, MaskInvalid, NotSupported
from pressroom_client._masks import decode_mask

ROOT = Path(__file__).parents[2]
SCENES = ROOT / "data" / "checkpoints" / "clipself_tiny" / "scenes"
PHOTOGRAPHS = sorted((ROOT / "data" / "photographs").glob("*.jpg"))
LABELS = ["cat", "pizza", "fire engine"]
MODEL = "clipself-tiny"


@pytest.fixture(params=["http", "grpc"])
def url(request: pytest.FixtureRequest, image_server: LiveServer) -> str:
    return image_server.url if request.param == "http" else f"grpc://{image_server.grpc_address}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.mark.parametrize(("model", "right"), [("clip-tiny", 15), ("clipself-tiny", 152)])
def test_the_published_accuracy_comes_through_the_endpoint(image_server: LiveServer, model: str, right: int) -> None:
    """15 and 152 of 285 boxes, 5.3 % and 53.3 %; one box more or less is rounding of another machine."""
    names = json.loads((SCENES.parent / "clip_tiny.json").read_text())["labels"]
    found, total = 0, 0
    with Client(image_server.url) as client:
        for scene in json.loads((SCENES / "scenes.json").read_text()):
            result = client.regions(SCENES / scene["image"], scene["boxes"], names, model=model, return_scores=False)
            found += sum(region.label == label for region, label in zip(result, scene["labels"], strict=True))
            total += len(result)
    assert total == 285
    assert abs(found - right) <= 1


@pytest.mark.parametrize("path", PHOTOGRAPHS, ids=lambda path: path.stem)
def test_photographs_pass_through_all_four_calls(client: Client, path: Path) -> None:
    with Image.open(path) as opened:
        width, height = opened.size
    regions = client.regions(path, [[0, 0, width, height]], LABELS, model=MODEL)
    found = client.detect(path, LABELS, model=MODEL, proposals="grid", max_detections=3)
    segments = client.segment(path, LABELS, model=MODEL)
    whole = client.classify(path, LABELS, model=MODEL)
    for result in (regions, found, segments, whole):
        assert (result.width, result.height, result.labels) == (width, height, tuple(LABELS))
        assert result.digest.startswith("sha256:")
    assert sum(regions[0].scores or ()) == pytest.approx(1, abs=1e-5)
    assert len(found) <= 3
    assert all(0 <= x <= width and 0 <= y <= height for one in found for x, y in ((one.box.xmax, one.box.ymax),))
    assert segments.map.shape == (height, width)
    assert sum(one.pixels for one in segments) == width * height
    assert found.draw().size == segments.draw().size == (width, height)


def test_one_image_in_five_forms_gets_one_answer(client: Client) -> None:
    path = SCENES / "scene_01.webp"
    pillow = Image.open(path).convert("RGB")
    answers = [
        client.regions(image, [[8, 17, 59, 63]], LABELS, model=MODEL)[0].cosines
        for image in (path, str(path), path.read_bytes(), pillow, np.asarray(pillow))
    ]
    assert all(answer == answers[0] for answer in answers)


def test_a_mask_of_the_whole_box_of_patches_says_what_the_box_says(client: Client) -> None:
    """192 pixels are 12 patches of 16; a box on patch borders and a mask of the same patches average the same cells."""
    path, inside = SCENES / "scene_02.webp", np.zeros((192, 192), bool)
    inside[32:96, 48:112] = True
    masks = [inside, {"polygons": [[48, 32, 112, 32, 112, 96, 48, 96]]}, {"png": _png(inside)}]
    result = client.regions(path, [[48, 32, 112, 96]], LABELS, masks=masks, model=MODEL)
    assert [region.kind for region in result] == ["box", "mask", "mask", "mask"]
    assert len({region.box for region in result}) == 1
    for mask in result.regions[1:]:
        np.testing.assert_allclose(mask.cosines, result[1].cosines, atol=1e-6)
        assert mask.label == result[0].label


def test_a_detector_finds_its_own_vocabulary_and_the_callers(client: Client) -> None:
    """An untrained detector: what it finds means nothing, but boxes, labels and categories belong together."""
    path = PHOTOGRAPHS[0]
    own = client.detect(path, model="fvit-tiny", max_detections=5)
    assert (own.proposals, own.fusion) == ("model", "trained")
    assert 0 < len(own) <= 5
    assert [one.score for one in own] == sorted((one.score for one in own), reverse=True)
    for one, entry in zip(own, own.to_coco("photo"), strict=True):
        assert own.labels[entry["category_id"] - 1] == one.label
        assert entry["bbox"] == [one.box.xmin, one.box.ymin, one.box.xmax - one.box.xmin, one.box.ymax - one.box.ymin]
        assert 0 <= one.box.xmin <= one.box.xmax <= own.width
        assert 0 <= one.box.ymin <= one.box.ymax <= own.height
    assert own.draw().size == (own.width, own.height)


def test_a_map_is_the_same_as_a_picture_and_as_run_lengths(client: Client) -> None:
    path = SCENES / "scene_03.webp"
    png = client.segment(path, LABELS, model=MODEL, background_threshold=0.6)
    rle = client.segment(path, LABELS, model=MODEL, background_threshold=0.6, output="rle")
    assert np.array_equal(png.map, rle.map)
    for one in rle:
        assert one.rle is not None
        assert decode_mask(one.rle).sum() == one.pixels == (png.map == one.value).sum()
    assert {entry["category_id"] for entry in png.to_coco()} == {one.value for one in png if one.value}


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header announces a large picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")


def test_refusals_are_errors_of_their_own_that_name_the_place(client: Client) -> None:
    path = SCENES / "scene_00.webp"
    refused: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (BoxInvalid, "boxes[1]", {"boxes": [[0, 0, 9, 9], [9, 9, 5, 5]]}),
        (BoxInvalid, "boxes[0]", {"boxes": [[300, 300, 400, 400]]}),
        (LabelInvalid, "labels[2]", {"boxes": [[0, 0, 9, 9]], "labels": ["a cat", "b", "A_cat."]}),
        (MaskInvalid, "masks[0]", {"masks": [np.zeros((192, 192), bool)]}),
        (MaskInvalid, "masks[0]", {"masks": [np.ones((10, 10), bool)]}),
        (MaskInvalid, "masks[0]", {"masks": [{"png": base64.b64encode(bomb(100_000, 100_000)).decode()}]}),
    ]
    for kind, field, options in refused:
        with pytest.raises(kind) as caught:
            client.regions(path, **{"labels": LABELS, "model": MODEL, **options})
        assert caught.value.field == field  # type: ignore[attr-defined]
    with pytest.raises(ImageTooLarge, match="40000 x 4000"):
        client.classify(bomb(40_000, 4_000), LABELS, model=MODEL)
    with pytest.raises(NotSupported) as caught_detector:
        client.detect(path, LABELS, model=MODEL)
    assert "proposals" in (caught_detector.value.hint or "")


async def test_the_async_client_is_answered_alike(url: str) -> None:
    path = SCENES / "scene_00.webp"
    with Client(url) as client:
        expected = client.regions(path, [[24, 14, 76, 79]], LABELS, model=MODEL)[0].scores
    async with AsyncClient(url) as client:
        found = (await client.regions(path, [[24, 14, 76, 79]], LABELS, model=MODEL))[0].scores
    assert found == expected


def _png(mask: np.ndarray) -> str:
    target = io.BytesIO()
    Image.fromarray(mask).save(target, format="PNG")
    return base64.b64encode(target.getvalue()).decode()
