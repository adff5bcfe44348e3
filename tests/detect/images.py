"""Pictures and requests the tests of the image service share."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "data" / "checkpoints" / "clipself_tiny"
PHOTOGRAPHS = sorted((ROOT / "data" / "photographs").glob("*.jpg"))
NAMES: list[str] = json.loads((FOLDER / "clip_tiny.json").read_bytes())["labels"]
SCENES: list[dict[str, Any]] = json.loads((FOLDER / "scenes" / "scenes.json").read_bytes())
MODEL = "clipself-tiny"

Json = dict[str, Any]


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def scene(index: int) -> bytes:
    """The file of a scene."""
    return (FOLDER / "scenes" / SCENES[index]["image"]).read_bytes()


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def noise(height: int, width: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """RGB pixels no two of which are alike."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def request(index: int = 0, **fields: Any) -> Json:
    """A request about a scene."""
    return {"model": MODEL, "image": base64(scene(index)), "labels": NAMES, **fields}
