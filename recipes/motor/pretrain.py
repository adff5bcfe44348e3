"""Pretraining: the loss of section 3.2 over every task and time bin, on packed batches.

The network kept is the one with the lowest loss on the tuning split. Resumed runs end in the same bits: a step's
randomness depends on the seed and the step's number only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.motor.config import MotorConfig
from models.motor.layers import Rotation, local_mask
from models.motor.network import Motor
from recipes.common import generator, load_state, progress, save_state
from recipes.motor.batches import Batch, assemble, training_batches, validation_batches
from recipes.motor.settings import Network, Settings, Training
from recipes.motor.targets import History, TaskPlan

STATE = "state.pt"
SHORTEST = 86400.0  # seconds that every wait counts for at least: bursts within a day say nothing of months and years
TAMED = 5.0  # log2 of the expected events beyond which the loss is linear
_SAVED_EVERY = 50  # steps
_HIDING = 1 << 32  # sets the randomness of hidden positions apart from that of epochs


@dataclass(frozen=True)
class Trained:
    """The best network, and (step, training loss since the last one, tuning loss) of every evaluation."""

    network: Motor
    curve: list[tuple[int, float, float]]


def configuration(network: Network, tasks: TaskPlan, rank: int, vocab_size: int) -> MotorConfig:
    """Layout v1 with a hierarchical dictionary and age channels."""
    return MotorConfig(
        layout="v1",
        vocab_size=vocab_size,
        hierarchical=True,
        hidden=network.hidden_size,
        intermediate=network.intermediate_size,
        heads=network.n_heads,
        layers=network.n_layers,
        window=network.attention_width,
        ages="overwrite",
        time_channels=1,
        bias=True,
        activation="swiglu" if network.hidden_act == "swiglu" else "gelu",
        epsilon=1e-6,
        time_bins=tuple(tasks.starts),
        rank=rank,
        tasks=tuple(tasks.codes),
    )


def untrained(config: MotorConfig, tasks: TaskPlan, seed: int) -> Motor:
    """Random weights; the task layer begins with every task's overall rate."""
    torch.manual_seed(seed)
    network = Motor(config)
    nn.init.normal_(network.embed, std=0.02)
    nn.init.normal_(network.head.task.weight, std=0.02)
    with torch.no_grad():
        network.head.task.bias.copy_(torch.tensor([math.log2(entry[1]) for entry in tasks.info]))
    return network


def represent(network: Motor, batch: Batch, weights: Tensor) -> Tensor:
    """The network's forward pass over rows that several patients share: nobody sees a neighbour. [B, L, D]."""
    config = network.config
    x = network.norm_in((network.embed[batch.tokens] * weights.unsqueeze(-1)).sum(dim=2))
    rotation = Rotation(batch.ages, config.hidden // config.heads)
    same = batch.segment.unsqueeze(2) == batch.segment.unsqueeze(1)
    mask = (same & local_mask(batch.ages.shape[1], config.window, x.device)).unsqueeze(1)
    for block in network.blocks:
        x = block(x, batch.times.unsqueeze(-1), rotation, mask)
    out: Tensor = network.norm_out(x)
    return out


def batch_loss(network: Motor, batch: Batch, weights: Tensor) -> Tensor:
    """Negative log-likelihood a label, bin and task; 0 without labels."""
    if not len(batch.label):
        return 0 * represent(network, batch, weights).sum()
    chosen = represent(network, batch, weights).flatten(0, 1)[batch.label]
    log2_time, falls = _in_bins(batch, torch.tensor(network.config.time_bins))
    return _tamed(network.head(chosen), log2_time, falls)


def _tamed(log2_hazard: Tensor, log2_time: Tensor, falls: Tensor) -> Tensor:
    """`models.motor.head.loss`, but linear where more than 2^TAMED events are expected of one label in one bin.

    The exponential of a first guess can be astronomically wrong; its tangent points the same way and stays finite.
    """
    expected = log2_hazard + log2_time
    beyond = (expected - TAMED).clamp(min=0)
    at_risk = torch.exp2(expected.clamp(max=TAMED)) + beyond * (2**TAMED * math.log(2))
    happened = torch.where(falls, log2_hazard, 0.0)
    return at_risk.mean() - math.log(2) * happened.mean()


def _in_bins(batch: Batch, starts: Tensor) -> tuple[Tensor, Tensor]:
    """log2 of the seconds at risk in each bin, and where each event falls: [P, b, t]."""
    ends = torch.cat([starts[1:], starts.new_full((1,), math.inf)]).reshape(1, -1, 1)
    low, until = starts.reshape(1, -1, 1), batch.until.clamp(min=SHORTEST).unsqueeze(1)
    at_risk = (torch.minimum(until, ends) - low).clamp(min=0)
    return torch.log2(at_risk), batch.event.unsqueeze(1) & (until >= low) & (until < ends)


class Run:
    """Network, optimiser and how far they are; `state` and `restore` are exact."""

    def __init__(self, network: Motor, wanted: Training) -> None:
        self.network, self.wanted = network, wanted
        groups = [
            {"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": wanted.weight_decay},
            {"params": [p for p in network.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=wanted.learning_rate, betas=(0.9, 0.98))
        self.step, self.loss_sum = 0, 0.0
        self.curve: list[tuple[int, float, float]] = []
        self.best = self._copy()

    def _copy(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def state(self) -> dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "best": self.best,
            "step": self.step,
            "loss_sum": self.loss_sum,
            "curve": self.curve,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best, self.step, self.loss_sum = state["best"], state["step"], state["loss_sum"]
        self.curve = [tuple(entry) for entry in state["curve"]]

    def train(self, batch: Batch) -> float:
        """One step; the loss before it."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.wanted.learning_rate * _rate(self.step, self.wanted)
        hidden = generator(self.wanted.seed, _HIDING + self.step).random(batch.ages.shape) < self.wanted.hidden_share
        shown = torch.from_numpy(~hidden).unsqueeze(-1)
        self.optimiser.zero_grad()
        loss = batch_loss(self.network, batch, batch.weights * shown)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self.wanted.clip_norm)
        self.optimiser.step()
        self.step += 1
        value = float(loss.detach())
        self.loss_sum += value
        return value

    def evaluate(self, batches: Sequence[Batch]) -> None:
        """Keep the network if it is the best so far."""
        tuning = mean_loss(self.network, batches)
        since = self.step - (self.curve[-1][0] if self.curve else 0)
        if tuning < min((entry[2] for entry in self.curve), default=math.inf):
            self.best = self._copy()
        self.curve.append((self.step, self.loss_sum / max(since, 1), tuning))
        self.loss_sum = 0.0


def mean_loss(network: Motor, batches: Sequence[Batch]) -> float:
    """Every label weighs the same."""
    with torch.no_grad():
        losses = [float(batch_loss(network, batch, batch.weights)) for batch in batches]
    return float(np.average(losses, weights=[len(batch.label) for batch in batches]))


def _rate(step: int, wanted: Training) -> float:
    """Linear up, then half a cosine down to a tenth."""
    if step < wanted.warmup_steps:
        return (step + 1) / wanted.warmup_steps
    done = (step - wanted.warmup_steps) / max(1, wanted.steps - wanted.warmup_steps)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def pretrain(
    settings: Settings,
    network: Motor,
    train: Sequence[History],
    tuning: Sequence[History],
    state: Path,
    until: int | None = None,
) -> Trained | None:
    """Train from scratch or from `state`; until: leave off at that step, to be resumed, and return nothing."""
    wanted = settings.training
    run = Run(network, wanted)
    if (saved := load_state(state)) is not None:
        run.restore(saved)
    checks = [assemble(rows, tuning, wanted.row_length) for rows in validation_batches(tuning, wanted)]
    end = min(wanted.steps, until or wanted.steps)
    batches = itertools.islice(training_batches(train, wanted), run.step, end)
    with progress("pretraining", wanted.steps) as tell:
        for rows in batches:
            loss = run.train(assemble(rows, train, wanted.row_length))
            if run.step % wanted.evaluate_every == 0 or run.step == wanted.steps:
                run.evaluate(checks)
            if run.step % _SAVED_EVERY == 0 or run.step == end:
                save_state(state, {"settings": repr(settings), **run.state()})
            tell(run.step, f"loss {loss:.4f}, tuning {run.curve[-1][2] if run.curve else math.nan:.4f}")
    if run.step < wanted.steps:
        return None
    network.load_state_dict(run.best)
    return Trained(network.eval().requires_grad_(False), run.curve)
