"""regions, detect, segment and classify over both transports: what may be sent, what comes back, what can be drawn."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_images
from PIL import Image
from pressroom_client import AsyncClient, Box, Client, InvalidRequest, UnexpectedAnswer, UsageError
from pressroom_client._masks import decode_mask, encode_mask
from tiny_service import DIGEST, Behaviour

LABELS = ["cat", "a red apple"]


@pytest.fixture
def photo() -> Image.Image:
    """48 x 32 pixels, every one of another colour."""
    y, x = np.mgrid[:32, :48]
    return Image.fromarray(np.stack([x * 5, y * 7, x + y], axis=-1).astype(np.uint8))


@pytest.fixture
def file(photo: Image.Image) -> bytes:
    return saved(photo, "PNG")


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, format=kind, **options)
    return target.getvalue()


def body(server: Behaviour) -> dict[str, Any]:
    sent = server.seen[-1].body
    return json.loads(sent if isinstance(sent, bytes) else sent.raw_input_contents[0][4:])


def test_regions_answer_in_the_order_sent_and_say_what_answered(client: Client, file: bytes) -> None:
    result = client.regions(file, [[1, 2, 20, 30], [40, -5, 99, 10]], LABELS, model="finder", top_k=1)
    assert [region.box for region in result] == [Box(1, 2, 20, 30), Box(40, 0, 48, 10)]
    assert [region.clipped for region in result] == [False, True]
    assert (result[0].label, result[0].score, result[0].top[0].cosine) == ("cat", 1.0, 0.5)
    assert result[1].scores == (1.0, 0.0)
    assert len(result) == 2
    assert (result.width, result.height, result.labels) == (48, 32, tuple(LABELS))
    assert (result.model, result.version, result.digest) == ("finder", "3", DIGEST)
    assert result.timings.total_ms == 3.0


def test_every_kind_of_image_arrives_as_the_same_pixels(
    client: Client, server: Behaviour, photo: Image.Image, file: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(file)
    array = np.asarray(photo)
    for image in (path, str(path), file, bytearray(file), photo, array, array[::-1][::-1]):
        client.classify(image, LABELS)
        assert np.array_equal(tiny_images.pixels(body(server)["image"]), array), type(image)
    for grey in (array[..., 0], array[..., :1], photo.getchannel(0)):
        client.classify(grey, LABELS)
        assert np.array_equal(tiny_images.pixels(body(server)["image"])[..., 1], array[..., 0])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK", "YCbCr", "HSV"])
def test_pillow_images_of_every_mode_can_be_sent(client: Client, photo: Image.Image, mode: str) -> None:
    assert client.classify(photo.convert(mode), LABELS).label == "cat"


def test_a_turned_photograph_is_drawn_upright_and_a_pillow_image_as_pillow_shows_it(
    client: Client, photo: Image.Image
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by a quarter
    turned = saved(photo, "JPEG", exif=exif)
    result = client.regions(turned, [[0, 0, 5, 5]], LABELS)
    assert (result.width, result.height) == (32, 48)
    assert result.draw().size == (32, 48)
    opened = client.regions(Image.open(io.BytesIO(turned)), [[0, 0, 5, 5]], LABELS)
    assert (opened.width, opened.height) == opened.draw().size == (48, 32)


REFUSED = [
    (b"", "0 bytes"),
    ("no-such-file.png", "cannot be read: No such file"),
    ("https://example.org/cat.jpg", "expected a path"),
    (3, "type int"),
    (np.zeros((4, 4, 3)), "array of float64, expected uint8"),
    (np.zeros((3, 8, 8), np.uint8), r"shape \[3, 8, 8\]"),
    (np.zeros((8, 8, 4), np.uint8), r"shape \[8, 8, 4\]"),
    (np.zeros((0, 8, 3), np.uint8), r"shape \[0, 8, 3\]"),
]


@pytest.mark.parametrize(("image", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_no_image_is_refused_before_anything_is_sent(image: Any, message: str) -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(UsageError, match=message) as caught:
        client.classify(image, LABELS)
    assert caught.value.field == "image"


def test_one_string_is_no_list_of_labels(file: bytes) -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(UsageError, match="one string"):
        client.detect(file, "cat")


def test_boxes_and_masks_are_taken_as_people_have_them(client: Client, server: Behaviour, file: bytes) -> None:
    for boxes in (np.array([[1.5, 2, 3, 4]]), [(1.5, 2, 3, 4)], [Box(1.5, 2, 3, 4)], [np.array([1.5, 2, 3, 4])]):
        client.regions(file, boxes, LABELS)
        assert body(server)["boxes"] == [[1.5, 2, 3, 4]]
    mask = np.zeros((32, 48), bool)
    mask[2:5, 7:9] = True
    for masks in (mask, mask[None], [mask], [encode_mask(mask)]):
        result = client.regions(file, labels=LABELS, masks=masks)
        assert np.array_equal(decode_mask(body(server)["masks"][0]), mask)
        assert result[0].kind == "mask"
    assert "boxes" not in body(server)


def test_run_lengths_go_down_the_columns_and_start_with_background() -> None:
    mask = np.array([[1, 0, 0], [1, 0, 1]], bool)
    assert encode_mask(mask) == {"size": [2, 3], "counts": [0, 2, 3, 1]}
    for made in (mask, ~mask, np.zeros((3, 2), bool), np.ones((3, 2), bool)):
        encoded = encode_mask(made)
        assert sum(encoded["counts"]) == made.size
        assert np.array_equal(decode_mask(encoded), made)


def test_compressed_run_lengths_of_coco_are_read() -> None:
    """The text as COCO's own tools write it for these runs: 6, 1, 40, 4, 5, 4, 5, 4, 21."""
    mask = decode_mask({"size": [9, 10], "counts": "61X13mN000`0"})
    assert encode_mask(mask)["counts"] == [6, 1, 40, 4, 5, 4, 5, 4, 21]


def test_detections_are_typed_drawn_and_written_for_coco(client: Client, photo: Image.Image) -> None:
    result = client.detect(photo, LABELS, threshold=0.5)
    assert [(one.label, one.score, tuple(one.box)) for one in result] == [
        ("cat", 0.9, (12, 8, 24, 32)),
        ("a red apple", 0.65, (12, 8, 24, 32)),
    ]
    assert (result.proposals, result.fusion, len(result), result[0].label) == ("model", "transfer", 2, "cat")
    expected = {"image_id": 7, "category_id": 2, "bbox": [12, 8, 12, 24], "score": 0.65}
    assert result.to_coco(image_id=7)[1] == expected
    assert [one["category_id"] for one in result.to_coco(0, {"cat": 17, "a red apple": 53})] == [17, 53]
    with pytest.raises(UsageError, match="a red apple"):
        result.to_coco(0, {"cat": 17})


def test_drawing_frames_the_box_and_leaves_the_caller_s_image_alone(client: Client) -> None:
    plain = Image.new("RGB", (200, 200), "white")
    drawn = np.asarray(client.detect(plain, ["cat"]).draw())
    assert np.asarray(plain).min() == 255
    assert drawn.shape == (200, 200, 3)
    changed = (drawn != 255).any(axis=-1)
    assert changed[120, 50]
    assert changed[120, 99]
    assert not changed[120, 100]  # far edges are exclusive
    assert not changed[120, 75]


def test_a_label_map_comes_in_three_ways_that_agree(client: Client, photo: Image.Image) -> None:
    expected = np.repeat((1 + np.arange(48) * 2 // 48)[None], 32, axis=0)
    for output in ("png", "rle"):
        result = client.segment(photo, LABELS, output=output)
        assert np.array_equal(result.map, expected)
        assert [one.pixels for one in result] == [768, 768]
        coco = result.to_coco(image_id="x")
        assert [(one["image_id"], one["category_id"]) for one in coco] == [("x", 1), ("x", 2)]
        assert np.array_equal(decode_mask(coco[1]["segmentation"]), expected == 2)
    heat = client.segment(photo, LABELS, output="heatmaps")
    assert np.array_equal(heat.segments[1].scores, (expected == 2).astype(np.float32))
    with pytest.raises(UsageError, match="no label map"):
        _ = heat.map
    with pytest.raises(UsageError, match="no heat map"):
        _ = result.segments[0].scores


def test_a_drawn_map_has_the_segments_colours_and_a_legend(client: Client) -> None:
    drawn = np.asarray(client.segment(Image.new("RGB", (400, 100)), LABELS).draw(opacity=1.0))
    assert drawn[99, 0].tolist() == [254, 1, 0]
    assert drawn[99, 399].tolist() == [253, 2, 0]
    assert drawn[:40, :120, 2].max() > 128  # white letters; the map has no blue
    assert drawn[60:, :, 2].max() == 0
    with pytest.raises(UsageError, match="opacity"):
        client.segment(Image.new("RGB", (40, 10)), LABELS).draw(opacity=2)


def test_options_travel_by_name_and_what_is_not_given_does_not(client: Client, server: Behaviour, file: bytes) -> None:
    client.detect(file, LABELS, model="finder:3", thresholds={"cat": 0.25}, class_agnostic=True, extra={"new": 1})
    sent = body(server)
    del sent["image"]
    assert sent == {
        "task": "detect",
        "model": "finder",
        "version": "3",
        "labels": LABELS,
        "thresholds": {"cat": 0.25},
        "class_agnostic": True,
        "new": 1,
    }


def test_a_refusal_and_a_strange_answer_are_told_apart(client: Client, file: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        client.classify(file, [])
    assert caught.value.field == "labels"
    with pytest.raises(UnexpectedAnswer, match="/v1/classify: KeyError at 'weights'"):
        client.classify(file, [tiny_images.STRANGE])


async def test_the_async_client_has_the_same_four(url: str, server: Behaviour, instant: Any, file: bytes) -> None:
    async with AsyncClient(url, clock=instant.clock) as client:
        assert (await client.regions(file, [[0, 0, 4, 4]], LABELS))[0].label == "cat"
        assert (await client.detect(file, LABELS))[0].score == 0.9
        assert (await client.segment(file, LABELS)).map.max() == 2
        assert (await client.classify(file, LABELS)).weights == "before"
