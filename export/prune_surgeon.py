"""Methods that look at the whole network at once: the LLM Surgeon in shots, its aligned shrinking, and norms.

The surgeon needs the network in float32 and two curvature factors a matrix in memory (`needed_bytes` says how much);
each finished shot is on disk, so that a stopped run resumes at the next one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from export.hugging_face import load_network
from export.progress import Report
from export.prune_layers import LayerFacts, LayerRun
from export.prune_plan import PruneJob, findings
from export.prune_work import Work, layer_stem
from models.llm.blocks import decoder_layers, matrix_name, projections
from models.pruning.aligned import DOWN, OUT, Aligned, shrink_by_curvature
from models.pruning.llm_surgeon.curvature import collect
from models.pruning.llm_surgeon.shots import cut_all
from models.pruning.llm_surgeon.threshold import structure_threshold
from models.pruning.structured_magnitude import norm_costs


def operate(run: LayerRun, job: PruneJob, windows: Tensor, report: Report) -> None:
    """All shots, then every layer to disk."""
    network = load_network(run.source.path)
    matrices = matrices_of(network)
    surgeon = job.surgeon
    targets = surgeon.targets()
    done = _resume(run.work, matrices, len(targets))
    for shot, target in enumerate(targets[done:], start=done + 1):
        step = f"curvature, shot {shot} of {len(targets)}"
        curvature = collect(network, matrices, _sequences(windows), len(windows), _ticks(report, step, len(windows)))
        with findings():
            for count, _ in enumerate(cut_all(matrices, curvature, surgeon, target), start=1):
                report(f"cut, shot {shot} of {len(targets)}", count, len(matrices))
        run.work.save(f"shot-{shot}", {name: linear.weight for name, linear in matrices.items()}, {"target": target})
    _store_all(run, network, report)


def shrink(run: LayerRun, job: PruneJob, aligned: Aligned, windows: Tensor, report: Report) -> None:
    """Aligned channels and groups by the curvature of down and o, then every layer to disk."""
    network = load_network(run.source.path)
    watched = {name: linear for name, linear in matrices_of(network).items() if DOWN in name or OUT in name}
    ticks = _ticks(report, "curvature", len(windows))
    curvature = collect(network, watched, _sequences(windows), len(windows), ticks)
    layers = decoder_layers(network)
    for index, layer in enumerate(layers):
        mine = {part: curvature[matrix_name(index, part)] for part in (DOWN, OUT)}
        with findings():
            shrink_by_curvature(layer, mine, aligned)
        report("shrink layers", index + 1, len(layers))
    _store_all(run, network, report)


def norm_threshold(run: LayerRun, sparsity: float, report: Report) -> float:
    """The one norm below which rows and columns go, from a walk through the dense layers."""
    costs, count = [], len(run.dense.layers)
    for index in range(count):
        report("measure norms", index, count)
        with run.dense.layer(index, run.source) as layer:
            costs += [norm_costs(one.linear.weight.float()) for one in projections(layer)]
    return structure_threshold(costs, sparsity)


def matrices_of(network: nn.Module) -> dict[str, nn.Linear]:
    """Every prunable matrix by its checkpoint name."""
    return {
        matrix_name(index, one.name): one.linear
        for index, layer in enumerate(decoder_layers(network))
        for one in projections(layer)
    }


def needed_bytes(network: nn.Module) -> int:
    """Memory of a shot in bytes: weights, curvature factors, and a second copy of both at work. Shapes suffice."""
    weights = sum(parameter.numel() for parameter in network.parameters())
    factors = sum(one.in_features**2 + one.out_features**2 for one in matrices_of(network).values())
    return 4 * (2 * weights + factors)


def _store_all(run: LayerRun, network: nn.Module, report: Report) -> None:
    layers = decoder_layers(network)
    for index, layer in enumerate(layers):
        if not run.work.has(layer_stem(index)):
            run.store(index, layer, LayerFacts())
        report("write layers", index + 1, len(layers))


@torch.no_grad()
def _resume(work: Work, matrices: dict[str, nn.Linear], shots: int) -> int:
    """Put the last finished shot's weights in place; how many shots are done."""
    done = max((shot for shot in range(1, shots + 1) if work.has(f"shot-{shot}")), default=0)
    if done:
        for name, tensor in work.tensors(f"shot-{done}").items():
            matrices[name].weight.copy_(tensor)
    return done


def _sequences(windows: Tensor) -> list[Tensor]:
    return [ids[None] for ids in windows]


def _ticks(report: Report, step: str, total: int) -> Any:
    return lambda done: report(step, done, total)
