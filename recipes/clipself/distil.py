"""CLIPSelf (Wu et al., ICLR 2024, section 3.2): dense features of regions learn to say what the whole-image embedding
of the same regions, cut out, says. No label and no text is involved.

Teacher  the tower as it came, frozen: the class token's embedding of each cut-out region
Student  a copy: its value-only dense map, pooled over each region by RoIAlign
Loss     1 - mean cosine of the two
Only the image tower changes. Queries and keys of its last block are of no use to the dense map and stay as they were.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from models.clipself.eva import EvaTower
from models.clipself.image import Pixels, classifier_pixels, crop, dense_pixels, normalised_boxes
from models.clipself.openai import OpenAiTower
from models.clipself.regions import box_features
from recipes.clipself.images import Source
from recipes.clipself.regions import regions_of
from recipes.clipself.settings import Training
from recipes.common import generator

Tower = EvaTower | OpenAiTower
BETAS = (0.9, 0.98)


@dataclass(frozen=True)
class Batch:
    """images float32 [B, 3, S, S]; boxes float32 [R, 4] fractions of S; image int64 [R]; crops float32 [R, 3, N, N]."""

    images: Tensor
    boxes: Tensor
    image: Tensor
    crops: Tensor


@dataclass
class Run:
    """A run after `step` steps: all that changes."""

    student: Tower
    optimizer: torch.optim.AdamW
    step: int = 0

    def state(self) -> dict[str, object]:
        """Everything a later process needs to go on."""
        return {"step": self.step, "student": self.student.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, object]) -> None:
        """Go on from `state()`."""
        self.student.load_state_dict(state["student"])  # type: ignore[arg-type]
        self.optimizer.load_state_dict(state["optimizer"])  # type: ignore[arg-type]
        self.step = int(state["step"])  # type: ignore[call-overload]


def start(teacher: Tower, settings: Training) -> Run:
    """A student with the teacher's weights."""
    student = copy.deepcopy(teacher).requires_grad_(True)
    weights = list(student.parameters())
    groups = [
        {"params": [one for one in weights if one.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [one for one in weights if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return Run(student, torch.optim.AdamW(groups, lr=settings.learning_rate, betas=BETAS))


def train(
    run: Run,
    teacher: Tower,
    source: Source,
    settings: Training,
    after_step: Callable[[Run, float], None],
    until: int | None = None,
) -> None:
    """Steps until settings.steps (or until the step `until`); after each, `after_step(run, loss)`."""
    while run.step < min(settings.steps, until or settings.steps):
        batch = draw_batch(source, settings, teacher.config.image_size, run.step)
        loss = distillation_loss(run.student, teacher, batch)
        for group in run.optimizer.param_groups:
            group["lr"] = learning_rate(settings, run.step)
        run.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(run.student.parameters(), settings.clip_norm)
        run.optimizer.step()
        run.step += 1
        after_step(run, float(loss.detach()))


def distillation_loss(student: Tower, teacher: Tower, batch: Batch) -> Tensor:
    """1 - mean cosine between pooled dense features and embeddings of the cut-out regions, 0..2."""
    with torch.no_grad():
        target = functional.normalize(teacher(batch.crops), dim=-1)
    pooled = functional.normalize(box_features(student.dense(batch.images), batch.boxes, batch.image), dim=-1)
    return 1 - (pooled * target).sum(dim=-1).mean()


def draw_batch(source: Source, settings: Training, crop_size: int, step: int) -> Batch:
    """The batch of a step; it depends on the seed and the step alone."""
    random = generator(settings.seed, step)
    images, boxes, image, crops = [], [], [], []
    for i in range(settings.batch_size):
        sample = source.draw(random)
        regions = regions_of(sample, settings, random)
        pixels, scale = dense_pixels(sample.pixels, settings.image_size)
        images.append(pixels)
        boxes.append(normalised_boxes(regions, scale, settings.image_size))
        image += [i] * len(regions)
        crops += [_cut(sample.pixels, box, crop_size) for box in regions]
    return Batch(
        torch.from_numpy(np.stack(images)),
        torch.from_numpy(np.concatenate(boxes)),
        torch.tensor(image),
        torch.from_numpy(np.stack(crops)),
    )


def learning_rate(settings: Training, step: int) -> float:
    """Linear warm-up, then a cosine to 0."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    part = (step - settings.warmup_steps) / max(settings.steps - settings.warmup_steps, 1)
    return settings.learning_rate * (1 + math.cos(math.pi * part)) / 2


def blend(student: Tower, teacher: Tower, kept: float) -> dict[str, Tensor]:
    """The student's weights with a share of the teacher's mixed in."""
    before = teacher.state_dict()
    return {name: torch.lerp(after, before[name], kept) for name, after in student.state_dict().items()}


def _cut(pixels: Pixels, box: np.ndarray, size: int) -> np.ndarray:
    return classifier_pixels(crop(pixels, box), size)
