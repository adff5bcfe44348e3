"""The loop: seeded, resumable after any epoch, kept at its best validation loss.

Batches of epoch e are drawn from `generator(seed, e)`, dropout of step n from `generator(seed, n)`: a resumed run ends
in the same bits as one that was never interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.forecasting.architecture import Architecture
from recipes.common import Tell, generator, load_state, progress, save_state
from recipes.forecasting.settings import Training
from recipes.forecasting.start import freeze_norms
from recipes.forecasting.windows import Rows, Windows

STATE = "training.pth"
EVALUATED = 64  # windows in one forward pass of an evaluation


@dataclass
class Progress:
    """How far a run is: epochs done, the best validation loss and its epoch, one entry an epoch."""

    epoch: int = 0
    best: float = math.inf
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run: network, windows, plan, and the folder its state lies in."""

    record: Architecture
    network: nn.Module
    windows: Windows
    plan: Training
    folder: Path
    reads_marks: bool

    def forecast(self, first: Rows, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Forecast and truth of some windows. kept: bool [N], columns that are not blanked out."""
        history, marks, truth = self.windows.batch(first, marks_ahead=self.record.marks_ahead)
        seen = history if kept is None else history * kept
        forecast: Tensor = self.network(seen, marks) if self.reads_marks else self.network(seen)
        return forecast, truth

    def loss(self, forecast: Tensor, truth: Tensor) -> Tensor:
        if self.plan.loss == "mse":
            return (forecast - truth).square().mean()
        weights = torch.arange(1, truth.shape[1] + 1).rsqrt().unsqueeze(-1)
        return ((forecast - truth).abs() * weights).mean()

    def step_loss(self, first: Rows, step: int) -> Tensor:
        """The loss of one training batch; some batches blank out columns and do not learn from them."""
        draw = generator(self.plan.seed, step)
        torch.manual_seed(int(draw.integers(1, 2**62 + 1)))
        if draw.random() >= self.plan.drop_columns:
            return self.loss(*self.forecast(first))
        kept = torch.from_numpy(draw.random(self.windows.scaled.shape[1]) < draw.random())
        kept[int(draw.integers(len(kept)))] = True
        forecast, truth = self.forecast(first, kept)
        return self.loss(forecast[..., kept], truth[..., kept])


def fit(run: Run, *, start: float = math.inf, until: int | None = None) -> Progress:
    """Train to the end, or to the end of epoch `until`; goes on from the state in the folder. Best weights are loaded.

    start  validation loss of the network as it is: weights that are not better are not kept
    The network is left in evaluation mode.
    """
    optimizer = _optimizer(run)
    found, best = _resume(run, optimizer, start)
    last = run.plan.epochs if until is None else min(until, run.plan.epochs)
    while found.epoch < last and found.epoch - found.best_epoch < run.plan.patience:
        trained = _epoch(run, optimizer, found.epoch)
        validation = errors(run, "validation", "loss")["loss"]
        found.epoch += 1
        found.history.append({"epoch": found.epoch, "train": trained, "validation": validation})
        if validation < found.best:
            found.best, found.best_epoch = validation, found.epoch
            best = {name: tensor.clone() for name, tensor in run.network.state_dict().items()}
        _save(run, optimizer, found, best)
    run.network.load_state_dict(best)
    run.network.eval()
    return found


def errors(run: Run, part: str, *names: str) -> dict[str, float]:
    """Averages over all windows of a part, in scaled units: "mse", "mae", and "loss", the one that is trained on."""
    run.network.eval()
    first, sums = run.windows.parts[part], dict.fromkeys(names, 0.0)
    with torch.inference_mode():
        for start in range(0, len(first), EVALUATED):
            rows = first[start : start + EVALUATED]
            forecast, truth = run.forecast(rows)
            gap = (forecast - truth).double()
            found = {
                "mse": gap.square().mean(),
                "mae": gap.abs().mean(),
                "loss": run.loss(forecast.double(), truth.double()),
            }
            for name in names:
                sums[name] += float(found[name]) * len(rows)
    return {name: total / len(first) for name, total in sums.items()}


def _epoch(run: Run, optimizer: torch.optim.Optimizer, epoch: int) -> float:
    """One pass; returns the average loss."""
    run.network.train()
    freeze_norms(run.network)
    batches = list(_batches(run, epoch))
    total = 0.0
    with progress(f"epoch {epoch + 1}/{run.plan.epochs}", len(batches)) as tell:
        for i, rows in enumerate(batches):
            step = epoch * len(batches) + i
            _set_rate(optimizer, run.plan, epoch, step, len(batches))
            loss = run.step_loss(rows, step)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if run.plan.clip_norm is not None:
                nn.utils.clip_grad_norm_(run.network.parameters(), run.plan.clip_norm)
            optimizer.step()
            total += float(loss.detach())
            _tell(tell, i + 1, total)
    return total / len(batches)


def _tell(tell: Tell, done: int, total: float) -> None:
    tell(done, f"loss {total / done:.4f}")


def _batches(run: Run, epoch: int) -> Iterator[Rows]:
    rows = generator(run.plan.seed, epoch).permutation(run.windows.parts["train"])
    size = run.plan.batch_size
    steps = max(len(rows) // size, 1)
    for i in range(min(steps, run.plan.epoch_steps or steps)):
        yield np.sort(rows[i * size : (i + 1) * size])


def _optimizer(run: Run) -> torch.optim.Optimizer:
    """Adam, or AdamW where weights decay; LIFT's backbone is a group with a rate of its own."""
    named = [(name, p) for name, p in run.network.named_parameters() if p.requires_grad]
    inner = [p for name, p in named if name.startswith("backbone.")]
    own = [p for name, p in named if not name.startswith("backbone.")]
    groups = [{"params": own, "multiple": 1.0}, {"params": inner, "multiple": run.plan.backbone_rate}]
    kind = torch.optim.AdamW if run.plan.weight_decay else torch.optim.Adam
    return kind([g for g in groups if g["params"]], lr=run.plan.learning_rate, weight_decay=run.plan.weight_decay)


def _set_rate(optimizer: torch.optim.Optimizer, plan: Training, epoch: int, step: int, steps: int) -> None:
    factor = 1.0
    if plan.schedule == "halving":
        factor = 0.5**epoch
    elif plan.schedule == "cosine":
        factor = (1 + math.cos(math.pi * step / (plan.epochs * steps))) / 2
    for group in optimizer.param_groups:
        group["lr"] = plan.learning_rate * factor * group["multiple"]


def _save(run: Run, optimizer: torch.optim.Optimizer, found: Progress, best: dict[str, Tensor]) -> None:
    state: dict[str, Any] = {
        "network": run.network.state_dict(),
        "best": best,
        "optimizer": optimizer.state_dict(),
        "progress": vars(found),
    }
    save_state(run.folder / STATE, state)


def _resume(run: Run, optimizer: torch.optim.Optimizer, start: float) -> tuple[Progress, dict[str, Tensor]]:
    state = load_state(run.folder / STATE)
    if state is None:
        return Progress(best=start), {name: tensor.clone() for name, tensor in run.network.state_dict().items()}
    run.network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(**state["progress"]), state["best"]
