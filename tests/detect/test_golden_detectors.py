"""The official detectors of the golden cases, pressed and served: their detections come back through HTTP.

The cases' inputs are not pictures (normalised noise beyond what 8 bits hold), so they travel as prepared tensors. A
real image file is compared with the torch network, which the golden cases hold to the official program.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from images import ROOT, base64, noise, png
from live_server import LiveServer
from safetensors.numpy import load_file

from models.clipself.fvit import checkpoint
from models.clipself.fvit.config import parse_fvit
from models.clipself.fvit.network import build
from models.clipself.image import fvit_pixels

GOLDEN = ROOT / "tests" / "golden" / "clipself"
CASES = [("fvit-tiny", "fvit_tiny", 128), ("fvit-transfer-tiny", "fvit_transfer_tiny", 112)]


def prepared(arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    image = arrays["input.image"][0]
    valid, original = arrays["input.img_shape"].tolist(), arrays["input.ori_shape"].tolist()
    data = base64(image.astype("<f4").tobytes())
    return {"dtype": "float32", "shape": list(image.shape), "data": data, "valid": valid, "original": original}


def rows(answer: dict[str, Any], labels: list[str]) -> tuple[npt.NDArray[np.float64], list[int]]:
    found = [[*one["box"].values(), one["score"]] for one in answer["detections"]]
    return np.array(found).reshape(-1, 5), [labels.index(one["label"]) for one in answer["detections"]]


@pytest.mark.parametrize(("model", "case", "size"), CASES)
def test_golden_detections_are_served(image_server: LiveServer, model: str, case: str, size: int) -> None:
    document = json.loads((GOLDEN / f"{case}.json").read_bytes())
    arrays = load_file(GOLDEN / f"{case}.safetensors")
    labels = [name for name in document["config"]["classes"] if name != "background"]
    response = image_server.post("/v1/detect", json={"model": model, "labels": labels, "image": prepared(arrays)})
    answer = response.json()
    assert response.status_code == 200, answer
    boxes, found = rows(answer, labels)
    np.testing.assert_allclose(boxes[:, :4], arrays["output.detections"][:, :4], atol=1e-2)
    np.testing.assert_allclose(boxes[:, 4], arrays["output.detections"][:, 4], atol=1e-3)
    assert found == arrays["output.labels"].tolist()
    assert answer["image"] == {"width": int(arrays["input.ori_shape"][1]), "height": int(arrays["input.ori_shape"][0])}
    assert answer["proposals"] == "model"
    assert answer["fusion"] == ("transfer" if "transfer" in case else "trained")


@pytest.mark.parametrize(("model", "case", "size"), CASES)
@pytest.mark.parametrize(("height", "width"), [(90, 117), (200, 61)])
def test_a_real_image_file_gives_the_networks_detections(
    image_server: LiveServer, model: str, case: str, size: int, height: int, width: int
) -> None:
    document = json.loads((GOLDEN / f"{case}.json").read_bytes())
    pixels = noise(height, width, seed=height)
    labels = [name for name in document["config"]["classes"] if name != "background"]
    response = image_server.post("/v1/detect", json={"model": model, "image": base64(png(pixels))})
    assert response.status_code == 200, response.text
    boxes, found = rows(response.json(), labels)
    expected = torch_detections(case, pixels, size)
    assert len(boxes) >= 5
    np.testing.assert_allclose(boxes[:, :4], expected[0][:, :4], atol=1e-2)
    np.testing.assert_allclose(boxes[:, 4], expected[0][:, 4], atol=1e-4)
    assert found == expected[1].tolist()


def torch_detections(case: str, pixels: npt.NDArray[np.uint8], size: int) -> tuple[Any, Any]:
    """The torch network on the same pixels."""
    config = parse_fvit(json.loads((GOLDEN / f"{case}.json").read_bytes())["config"])
    arrays = {k: torch.from_numpy(v) for k, v in load_file(GOLDEN / f"{case}.safetensors").items()}
    state = {name.removeprefix("state."): t for name, t in arrays.items() if name.startswith("state.")}
    network = build(config)
    network.load_state_dict(checkpoint.translate(state, config).state, strict=True)
    prepared_, valid, factors = fvit_pixels(pixels, size)
    with torch.inference_mode():
        (judged,) = network.judge(
            torch.from_numpy(prepared_)[None], arrays["input.class_embeddings"], arrays["input.is_base_class"], [valid]
        )
        found = network.select(judged, valid, torch.from_numpy(factors))
    return found.boxes.numpy(), found.labels.numpy()


def test_thresholds_limits_and_agnostic_suppression(image_server: LiveServer) -> None:
    image = base64(png(noise(90, 117, seed=90)))

    def ask(**fields: Any) -> list[dict[str, Any]]:
        response = image_server.post("/v1/detect", json={"model": "fvit-tiny", "image": image, **fields})
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["detections"]
        return found

    everything = ask()
    assert [one["score"] for one in everything] == sorted((one["score"] for one in everything), reverse=True)
    cut = everything[3]["score"]
    assert ask(threshold=cut) == [one for one in everything if one["score"] > cut]
    assert ask(max_detections=2) == everything[:2]
    best = everything[0]["label"]
    assert all(one["label"] != best for one in ask(thresholds={best: 1.0}))
    agnostic = ask(class_agnostic=True, overlap=0.3)
    for i, one in enumerate(agnostic):
        assert all(overlap(one["box"], other["box"]) <= 0.3 + 1e-5 for other in agnostic[:i])
    loose = ask(overlap=1.0, max_detections=1000)
    assert len(loose) > len(everything)


def overlap(a: dict[str, float], b: dict[str, float]) -> float:
    wide = min(a["xmax"], b["xmax"]) - max(a["xmin"], b["xmin"])
    high = min(a["ymax"], b["ymax"]) - max(a["ymin"], b["ymin"])
    common = max(wide, 0) * max(high, 0)
    areas = sum((one["xmax"] - one["xmin"]) * (one["ymax"] - one["ymin"]) for one in (a, b))
    return common / (areas - common)


def test_a_detector_without_a_text_tower_says_which_labels_it_knows(image_server: LiveServer) -> None:
    refusal = image_server.post(
        "/v1/detect", json={"model": "fvit-tiny", "image": base64(png(noise(30, 30))), "labels": ["cat", "unicorn"]}
    )
    error = refusal.json()["error"]
    assert (refusal.status_code, error["code"], error["field"]) == (422, "label_invalid", "labels[1]")
    assert "zebra" in error["hint"]


def test_a_detector_scores_the_callers_regions_too_but_no_whole_image(image_server: LiveServer) -> None:
    image = base64(png(noise(60, 80)))
    ask = {"model": "fvit-tiny", "image": image, "labels": ["cat", "zebra"]}
    regions = image_server.post("/v1/regions", json={**ask, "boxes": [[0, 0, 40, 60]]})
    assert regions.status_code == 200, regions.text
    assert sum(regions.json()["regions"][0]["scores"]) == pytest.approx(1, abs=1e-5)
    refusal = image_server.post("/v1/classify", json=ask)
    assert refusal.json()["error"]["code"] == "not_supported"
