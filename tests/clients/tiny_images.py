"""The tiny service's image model: it finds the first label in every box, and the labels in stripes from the left.

It reads the image as any server would: a file through Pillow, raw pixels as bytes.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from tiny_service import DIGEST, STAGES, RefusalError

Json = dict[str, Any]
TASKS = ("regions", "detect", "segment", "classify")
ROUTES = tuple(f"POST /v1/{task}" for task in TASKS)
STRANGE = "strange"  # a label whose answer lacks what it promises


def answer(request: Json, request_id: str) -> Json:
    """The native answer of the task the request names."""
    labels = request.get("labels", ["thing"])
    if not labels:
        raise RefusalError("invalid_request", 400, "INVALID_ARGUMENT", field="labels")
    height, width = pixels(request["image"]).shape[:2]
    head = {
        "model": "finder",
        "version": "3",
        "digest": DIGEST,
        "request_id": request_id,
        "timings": STAGES,
        "batch_rows": 1,
        "image": {"width": width, "height": height},
        "labels": labels,
        "size": request.get("size", 64),
    }
    if labels == [STRANGE]:
        return head
    return head | globals()[f"_{request['task']}"](request, labels, height, width)


def pixels(image: str | Json) -> np.ndarray:
    """[H, W, 3], upright."""
    if isinstance(image, str):
        with Image.open(io.BytesIO(base64.b64decode(image))) as opened:
            return np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    raw = np.frombuffer(base64.b64decode(image["data"]), np.uint8).reshape(image["shape"])
    return np.broadcast_to(raw.reshape(*raw.shape[:2], -1), (*raw.shape[:2], 3))


def _judgement(labels: list[str], request: Json) -> Json:
    scores = [1.0 if i == 0 else 0.0 for i in range(len(labels))]
    top = [{"label": name, "score": score, "cosine": score / 2} for name, score in zip(labels, scores, strict=True)]
    told = request.get("return_scores", True)
    return {
        "top": top[: request.get("top_k", 5)],
        "scores": scores if told else None,
        "cosines": [score / 2 for score in scores] if told else None,
    }


def _regions(request: Json, labels: list[str], height: int, width: int) -> Json:
    found = []
    for i, (x0, y0, x1, y1) in enumerate(request.get("boxes", [])):
        box = {"xmin": max(x0, 0), "ymin": max(y0, 0), "xmax": min(x1, width), "ymax": min(y1, height)}
        clipped = [*box.values()] != [x0, y0, x1, y1]
        found.append({"index": i, "kind": "box", "box": box, "clipped": clipped, **_judgement(labels, request)})
    for mask in request.get("masks", []):
        rows, columns = mask["size"]
        box = {"xmin": 0, "ymin": 0, "xmax": columns, "ymax": rows}
        found.append({"index": len(found), "kind": "mask", "box": box, "clipped": False, **_judgement(labels, request)})
    return {"regions": found}


def _detect(request: Json, labels: list[str], height: int, width: int) -> Json:
    box = {"xmin": width / 4, "ymin": height / 4, "xmax": width / 2, "ymax": height}
    found = [{"label": label, "score": 0.9 - 0.25 * i, "box": box} for i, label in enumerate(labels)]
    kept = [one for one in found if one["score"] >= request.get("threshold", 0.0)]
    return {"detections": kept, "proposals": request.get("proposals", "model"), "fusion": "transfer"}


def _segment(request: Json, labels: list[str], height: int, width: int) -> Json:
    values = 1 + np.arange(width) * len(labels) // width
    values = np.repeat(values[None].astype(np.uint8), height, axis=0)
    output = request.get("output", "png")
    segments = []
    for value, label in enumerate(labels, 1):
        inside = values == value
        segments.append(
            {
                "label": label,
                "value": value,
                "color": [255 - value, value, 0],
                "pixels": int(inside.sum()),
                "rle": _rle(inside) if output == "rle" else None,
                "heatmap": _grey(inside * np.uint8(255)) if output == "heatmaps" else None,
            }
        )
    png = _grey(values) if output == "png" else None
    return {"map_size": {"width": width, "height": height}, "segments": segments, "png": png}


def _classify(request: Json, labels: list[str], height: int, width: int) -> Json:
    return {"weights": "before", **_judgement(labels, request)}


def _grey(values: np.ndarray) -> str:
    target = io.BytesIO()
    Image.fromarray(values).save(target, format="PNG")
    return base64.b64encode(target.getvalue()).decode()


def _rle(inside: np.ndarray) -> Json:
    """Run lengths by walking the pixels one by one, down the columns."""
    runs, current = [0], False
    for pixel in inside.T.reshape(-1).tolist():
        if pixel != current:
            runs.append(0)
            current = pixel
        runs[-1] += 1
    return {"size": list(inside.shape), "counts": runs}


def dumped(request: bytes, request_id: str) -> bytes:
    """JSON in, JSON out."""
    return json.dumps(answer(json.loads(request), request_id)).encode()
