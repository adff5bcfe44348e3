"""The four routes over HTTP and the Open Inference Protocol: what people send, and what they are told."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from typing import Any

import httpx
import numpy as np
import pytest
from images import MODEL, NAMES, PHOTOGRAPHS, SCENES, base64, noise, png, request, scene
from live_server import LiveServer
from PIL import Image

ROUTES: dict[str, dict[str, Any]] = {
    "/v1/regions": {"boxes": SCENES[0]["boxes"]},
    "/v1/detect": {"proposals": "grid"},
    "/v1/segment": {},
    "/v1/classify": {},
}


def without_explanation(answer: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in answer.items() if k not in ("request_id", "timings", "batch_rows")}


def refused(response: httpx.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["field"]


@pytest.mark.parametrize("route", ROUTES)
def test_a_form_a_tensor_and_json_get_the_same_answer(image_server: LiveServer, route: str) -> None:
    fields = {"model": MODEL, "labels": NAMES, **ROUTES[route]}
    as_json = image_server.post(route, json=request(**ROUTES[route]))
    form = image_server.post(route, files={"image": ("s.webp", scene(0))}, data={"request": json.dumps(fields)})
    inside = {"task": route.removeprefix("/v1/"), **fields}
    tensors = [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps(inside)]}]
    pixels = np.asarray(Image.open(io.BytesIO(scene(0))).convert("RGB"))
    flat = pixels.ravel().tolist()
    tensors.append({"name": "image", "datatype": "UINT8", "shape": list(pixels.shape), "data": flat})
    oip = image_server.post(f"/v2/models/{MODEL}/infer", json={"inputs": tensors})
    assert as_json.status_code == 200, as_json.text
    expected = without_explanation(as_json.json())
    assert without_explanation(form.json()) == expected
    assert without_explanation(json.loads(oip.json()["outputs"][0]["data"][0])) == expected


def test_form_fields_may_come_one_by_one(image_server: LiveServer) -> None:
    form = image_server.post(
        "/v1/regions",
        files={"image": ("s.webp", scene(0))},
        data={"model": MODEL, "labels": ["cat", "pizza"], "boxes": "[[0, 0, 50, 50]]", "top_k": "1"},
    )
    assert form.status_code == 200, form.text
    assert form.json()["labels"] == ["cat", "pizza"]
    one = image_server.post(
        "/v1/classify", files={"image": ("s.webp", scene(0))}, data={"model": MODEL, "labels": "cat"}
    )
    assert one.json()["labels"] == ["cat"]


@pytest.mark.parametrize("photograph", PHOTOGRAPHS, ids=lambda path: path.stem)
@pytest.mark.parametrize("route", ROUTES)
def test_a_real_photograph_passes_through_every_route(image_server: LiveServer, route: str, photograph: Any) -> None:
    with Image.open(photograph) as image:
        width, height = image.size
    fields = ROUTES[route] | ({"boxes": [[0, 0, width / 2, height]]} if route == "/v1/regions" else {})
    response = image_server.post(
        route,
        files={"image": photograph.read_bytes()},
        data={"request": json.dumps({"model": MODEL, "labels": NAMES, **fields})},
    )
    answer = response.json()
    assert response.status_code == 200, answer
    assert answer["image"] == {"width": width, "height": height}
    assert answer["labels"] == NAMES


def test_regions_say_what_was_used_and_scores_add_up(image_server: LiveServer) -> None:
    sent = {"boxes": [[-20, 10, 60, 90]], "masks": [{"polygons": [[10, 10, 60, 10, 60, 60]]}], "top_k": 3}
    answer = image_server.post("/v1/regions", json=request(**sent)).json()
    box, mask = answer["regions"]
    assert box["clipped"]
    assert box["box"] == {"xmin": 0, "ymin": 10, "xmax": 60, "ymax": 90}
    assert (mask["kind"], mask["clipped"], mask["index"]) == ("mask", False, 1)
    for region in (box, mask):
        assert sum(region["scores"]) == pytest.approx(1, abs=1e-5)
        order = np.argsort(region["cosines"])[::-1][:3]
        assert [one["label"] for one in region["top"]] == [NAMES[i] for i in order]
    assert answer["size"] == 192


def test_a_mask_of_whole_patches_is_the_mean_of_its_cells(image_server: LiveServer) -> None:
    """At 192 px a patch is 16 px of the scene; a mask and a box of one patch see the same cell."""
    mask = np.zeros((192, 192), dtype=np.uint8)
    mask[32:48, 64:80] = 255
    sent = {"boxes": [[64, 32, 80, 48]], "masks": [{"png": base64(grey(mask))}]}
    box, region = image_server.post("/v1/regions", json=request(**sent)).json()["regions"]
    np.testing.assert_allclose(box["cosines"], region["cosines"], atol=1e-5)
    assert region["box"] == {"xmin": 64, "ymin": 32, "xmax": 80, "ymax": 48}


def grey(levels: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(levels).save(out, "PNG")
    return out.getvalue()


def test_maps_agree_however_they_are_written(image_server: LiveServer) -> None:
    sent = {"labels": NAMES[:6], "background_threshold": 0.3}
    made = {
        o: image_server.post("/v1/segment", json=request(output=o, **sent)).json() for o in ("png", "rle", "heatmaps")
    }
    values = np.asarray(Image.open(io.BytesIO(b64decode(made["png"]["png"]))))
    assert values.shape == (192, 192)
    for segment in made["png"]["segments"]:
        assert segment["pixels"] == (values == segment["value"]).sum()
    assert [s["pixels"] for s in made["rle"]["segments"]] == [s["pixels"] for s in made["png"]["segments"]]
    heat = [
        np.asarray(Image.open(io.BytesIO(b64decode(s["heatmap"])))) for s in made["heatmaps"]["segments"] if s["value"]
    ]
    best = np.stack(heat).argmax(axis=0) + 1
    sure = np.sort(np.stack(heat), axis=0)
    clear = (sure[-1].astype(int) - sure[-2] > 1) & (values > 0)
    assert clear.mean() > 0.2
    assert (best == values)[clear].all()
    assert {"label": "background", "value": 0}.items() <= made["png"]["segments"][0].items()
    grid = image_server.post("/v1/segment", json=request(resolution="grid", **sent)).json()
    assert grid["map_size"] == {"width": 12, "height": 12}


def test_windows_find_what_a_scene_shows_and_say_that_they_are_windows(image_server: LiveServer) -> None:
    answer = image_server.post("/v1/detect", json=request(3, proposals="grid", max_detections=20)).json()
    assert (answer["proposals"], answer["fusion"]) == ("grid", "none")
    assert 0 < len(answer["detections"]) <= 20
    for one in answer["detections"]:
        assert one["label"] in NAMES
        assert 0 <= one["box"]["xmin"] < one["box"]["xmax"] <= 192.01
    refusal = image_server.post("/v1/detect", json=request())
    assert refused(refusal) == (422, "not_supported", "proposals")
    assert "/v1/regions" in refusal.json()["error"]["hint"]


def test_whole_images_are_judged_by_the_weights_from_before(image_server: LiveServer) -> None:
    both = {}
    for model in ("clipself-tiny", "clip-tiny"):
        answer = image_server.post("/v1/classify", json=request() | {"model": model}).json()
        both[model] = answer["cosines"]
    np.testing.assert_allclose(both["clipself-tiny"], both["clip-tiny"], atol=1e-5)
    described = image_server.get("/v1/models/clipself-tiny").json()
    assert "before" in described["settings"]["whole_image"]
    assert "non-commercial" in described["licence"]


BAD: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("/v1/regions", {"boxes": [[0, 0, 5, 5], [9, 9, 3, 12]]}, 422, "box_invalid", "boxes[1]"),
    ("/v1/regions", {"boxes": [[500, 500, 600, 600]]}, 422, "box_invalid", "boxes[0]"),
    ("/v1/regions", {"boxes": "all"}, 422, "invalid_request", "boxes"),
    ("/v1/regions", {"masks": [{"png": "zz"}]}, 422, "mask_invalid", "masks[0]"),
    ("/v1/regions", {"boxes": []}, 422, "empty_batch", "boxes"),
    ("/v1/regions", {"boxes": [[0, 0, 5, 5]] * 1025}, 422, "too_many_rows", "boxes"),
    ("/v1/regions", {"boxes": [[0, 0, 5, 5]], "top_k": 0}, 422, "invalid_request", "top_k"),
    ("/v1/classify", {"labels": []}, 422, "invalid_request", "labels"),
    ("/v1/classify", {"labels": None}, 422, "invalid_request", "labels"),
    ("/v1/classify", {"labels": ["cat", "Cat."]}, 422, "label_invalid", "labels[1]"),
    ("/v1/classify", {"labels": ["cat", "<end_of_text>"]}, 422, "label_invalid", "labels[1]"),
    ("/v1/classify", {"labels": ["x" * 600]}, 422, "label_invalid", "labels[0]"),
    ("/v1/classify", {"labels": ["cat"] * 3000}, 422, "too_many_rows", "labels"),
    ("/v1/classify", {"templates": ["{} {0.__class__}"]}, 422, "label_invalid", "templates[0]"),
    ("/v1/classify", {"templates": []}, 422, "invalid_request", "templates"),
    ("/v1/classify", {"size": 9000}, 422, "invalid_request", "size"),
    ("/v1/classify", {"fit": "squash"}, 422, "invalid_request", "fit"),
    ("/v1/classify", {"boxes": []}, 422, "invalid_request", "boxes"),
    ("/v1/classify", {"task": "detect"}, 422, "invalid_request", "task"),
    ("/v1/segment", {"background_threshold": 2}, 422, "invalid_request", "background_threshold"),
    ("/v1/segment", {"output": "jpeg"}, 422, "invalid_request", "output"),
    ("/v1/detect", {"proposals": "grid", "thresholds": {"unicorn": 0.5}}, 422, "label_invalid", "thresholds"),
    ("/v1/detect", {"proposals": "grid", "overlap": 0.5}, 422, "invalid_request", "overlap"),
    ("/v1/classify", {"image": None}, 422, "image_invalid", "image"),
    ("/v1/classify", {"image": "http://127.0.0.1/cat.png"}, 422, "image_invalid", "image"),
    ("/v1/classify", {"image": "file:///etc/passwd"}, 422, "image_invalid", "image"),
    ("/v1/classify", {"image": "no base64!"}, 422, "image_invalid", "image"),
    ("/v1/classify", {"image": {"shape": [2, 2, 3], "data": "AAAA"}}, 422, "image_invalid", "image.data"),
    ("/v1/classify", {"image": {"shape": [10**6, 10**6], "data": ""}}, 422, "image_too_large", "image"),
    ("/v1/regions", {"image": {"dtype": "float32", "shape": [3, 32, 32], "data": "", "valid": [40, 32],
                               "original": [9, 9]}, "boxes": [[0, 0, 1, 1]]}, 422, "image_invalid", "image.valid"),
]  # fmt: skip


@pytest.mark.parametrize(("route", "fields", "status", "code", "field"), BAD)
def test_what_cannot_be_used_is_refused_by_its_place(
    image_server: LiveServer, route: str, fields: dict[str, Any], status: int, code: str, field: str
) -> None:
    assert refused(image_server.post(route, json=request(**fields))) == (status, code, field)


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (
            b"--b\r\nContent-Disposition: form-data; name=image\r\n\r\nxx",
            "multipart/form-data; boundary=b",
            "invalid_json",
        ),
        (
            b"--b\r\nContent-Disposition: form-data\r\n\r\nxx\r\n--b--\r\n",
            "multipart/form-data; boundary=b",
            "invalid_request",
        ),
        (b"nothing", "multipart/form-data; boundary=b", "invalid_json"),
        (b"nothing", "multipart/form-data", "invalid_request"),
        (b"{}", "text/plain", "unsupported_media_type"),
    ],
)
def test_a_damaged_form_is_refused(image_server: LiveServer, body: bytes, kind: str, code: str) -> None:
    response = image_server.post("/v1/classify", content=body, headers={"Content-Type": kind})
    assert refused(response)[1] == code


def test_a_field_twice_is_refused(image_server: LiveServer) -> None:
    response = image_server.post("/v1/classify", files={"image": scene(0)}, data={"request": json.dumps(request())})
    assert refused(response) == (422, "invalid_request", "image")


def test_other_tensors_and_a_missing_task_are_refused(image_server: LiveServer) -> None:
    def infer(*tensors: dict[str, Any]) -> tuple[int, str, str | None]:
        return refused(image_server.post(f"/v2/models/{MODEL}/infer", json={"inputs": list(tensors)}))

    sent = {"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps({"labels": ["cat"]})]}
    assert infer(sent) == (422, "invalid_request", "task")
    assert infer(sent, {"name": "picture", "datatype": "UINT8", "shape": [1], "data": [1]})[1] == "tensor_unexpected"


def test_labels_are_embedded_once_and_counted(image_server: LiveServer) -> None:
    def counted(result: str) -> float:
        return image_server.metric("pressroom_detect_labels_total", model=MODEL, result=result)

    labels = ["a word nobody sent before", "and another one"]
    before = counted("miss"), counted("hit")
    for _ in range(3):
        assert image_server.post("/v1/classify", json=request(labels=labels)).status_code == 200
    assert (counted("miss") - before[0], counted("hit") - before[1]) == (2, 4)
    assert image_server.post("/v1/classify", json=request(labels=labels, templates=["my {}"])).status_code == 200
    assert counted("miss") - before[0] == 4  # another template, another embedding


def test_an_image_of_any_shape_is_answered(image_server: LiveServer) -> None:
    for height, width in ((1, 1), (1, 700), (700, 1), (3, 2)):
        image = base64(png(noise(height, width)))
        for route, fields in ROUTES.items():
            sent = {"boxes": [[0, 0, width, height]]} if route == "/v1/regions" else fields
            for fit in ("pad", "centre") if route == "/v1/classify" else (None,):
                more = {"fit": fit} if fit else {}
                response = image_server.post(route, json=request(**sent, **more) | {"image": image})
                assert response.status_code == 200, (route, height, width, response.text)
