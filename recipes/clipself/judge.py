"""Box classification: how often the label nearest to a box's pooled dense features is the right one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.clipself.image import dense_pixels, normalised_boxes
from models.clipself.labels import label_text
from models.clipself.regions import box_features, cosine
from models.clipself.text import join
from models.clipself.tokenizer import ClipTokenizer
from recipes.clipself.distil import Tower
from recipes.clipself.official import Original


@torch.inference_mode()
def label_embeddings(original: Original) -> Tensor:
    """[C, E], unit norm: the configuration's labels in its own prompts, as they stand."""
    document, tokenizer = original.document, ClipTokenizer()
    found = []
    for label in document["labels"]:
        texts = [template.format(label_text(label)) for template in document["templates"]]
        ids = torch.from_numpy(tokenizer(texts, original.config.text.context_length))
        found.append(join(original.network.text(ids)))
    return torch.stack(found)


@torch.inference_mode()
def top1(tower: Tower, labels: Tensor, names: list[str], folder: Path, size: int) -> float:
    """Share of right boxes, 0..1, over `scenes.json` of a folder: [{"image", "boxes", "labels"}]."""
    right, total = 0, 0
    for scene in json.loads((folder / "scenes.json").read_text(encoding="utf-8")):
        with Image.open(folder / scene["image"]) as opened:
            pixels, scale = dense_pixels(np.asarray(opened.convert("RGB")), size)
        boxes = torch.from_numpy(normalised_boxes(np.asarray(scene["boxes"], np.float32), scale, size))
        dense = tower.dense(torch.from_numpy(pixels)[None])
        found = cosine(box_features(dense, boxes, torch.zeros(len(boxes), dtype=torch.int64)), labels)
        right += sum(names[i] == label for i, label in zip(found.argmax(-1).tolist(), scene["labels"], strict=True))
        total += len(boxes)
    return right / max(total, 1)


def judge(original: Original, tower: Tower, folder: Path, size: int) -> float:
    """Top-1 of a tower with the original's text tower and labels."""
    return top1(tower, label_embeddings(original), original.document["labels"], folder, size)
