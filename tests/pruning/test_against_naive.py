"""Golden cases nobody recorded: random ones answered by `naive_pruning` and put through `pressroom verify golden`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import naive_pruning as naive
import numpy as np
import pytest
import torch
from naive_pruning import Matrix
from safetensors.torch import save_file
from tiny_models import tiny_network
from torch import nn
from torch.nn import functional

from export.golden.compare import OutputResult
from export.golden.runners import run_case

METHODS = ("ria", "wanda", "magnitude", "ri")


def failures(folder: Path, document: dict[str, Any], tensors: dict[str, Any]) -> list[OutputResult]:
    """Write a case, run it; every expected output must have been answered."""
    (folder / "case.json").write_text(json.dumps(document))
    stored = {name: torch.as_tensor(value).contiguous() for name, value in tensors.items()}
    floats = {name: value.float() if value.is_floating_point() else value for name, value in stored.items()}
    save_file(floats, folder / "case.safetensors")
    _, results = run_case(folder / "case.json")
    assert len(results) == sum(name.startswith("output.") for name in tensors)
    return [result for result in results if result.verdict != "ok"]


def linear(rows: int, columns: int, seed: int, silent: int = 0) -> tuple[Matrix, Matrix]:
    """float32 numbers in float64: weight [R, C] and sequences [5, 7, C], of which `silent` channels are zero."""
    random = np.random.default_rng(seed)
    weight = random.standard_normal((rows, columns)) * random.uniform(0.2, 2.0, columns)
    sequences = random.standard_normal((5, 7, columns)) * random.uniform(0.1, 3.0, columns)
    sequences[:, :, random.permutation(columns)[:silent]] = 0.0
    return weight.astype(np.float32).astype(float), sequences.astype(np.float32).astype(float)


@pytest.mark.parametrize(
    ("rows", "columns", "power", "share", "silent"),
    [(5, 24, 0.5, 0.5, 0), (33, 40, 1.0, 0.3, 0), (7, 56, 0.0, 0.71, 0), (16, 16, 2.0, 0.5, 0), (9, 32, 0.5, 0.6, 2)],
)
def test_scores_and_masks_of_any_matrix(
    rows: int, columns: int, power: float, share: float, silent: int, tmp_path: Path
) -> None:
    weight, sequences = linear(rows, columns, seed=rows, silent=silent)
    norm2 = naive.energy(sequences)
    tensors: dict[str, Any] = {"state.weight": weight, "input.calibration": sequences, "output.scaler_row": norm2}
    modes: dict[str, Any] = {}
    for method in METHODS:
        values = naive.score(method, weight, norm2, power)
        tensors[f"output.score.{method}"] = values
        masks = {"unstructured": ("whole matrix", naive.whole_matrix(values, share))}
        masks["unstructured_per_output"] = ("per output row", naive.per_output(values, share))
        for pruned, of in ((2, 4), (4, 8), (1, 4), (3, 4), (7, 8), (1, 2)):
            words = f"{pruned} pruned of every {of} consecutive inputs"
            masks[f"{pruned}of{of}"] = (words, naive.n_of_m(values, of - pruned, of))
        for name, (pattern, keep) in masks.items():
            modes[f"{method}.{name}"] = {"prune_method": method, "pattern": pattern, "min_relative_margin": None}
            tensors[f"output.keep_mask.{method}.{name}"] = keep.astype(np.int64)
    config = {"activation_power_a": power, "sparsity_ratio": share, "modes": modes}
    assert failures(tmp_path, {"system": "ria", "config": config}, tensors) == []


def test_kept_weights_make_up_for_removed_ones(tmp_path: Path) -> None:
    weight, sequences = linear(6, 12, seed=2)
    sequences = np.tile(sequences, (1, 3, 1)) + 0.1 * np.random.default_rng(0).standard_normal((5, 21, 12))
    sequences = sequences.astype(np.float32).astype(float)
    keep = naive.whole_matrix(naive.score("ria", weight, naive.energy(sequences), 0.5), 0.5)
    mode = {"prune_method": "ria", "pattern": "whole matrix", "min_relative_margin": None, "reconstruction": True}
    document = {
        "system": "ria",
        "config": {"activation_power_a": 0.5, "sparsity_ratio": 0.5, "modes": {"ria.adapted": mode}},
        "tolerance": {"reconstructed_weight_rtol": 0.002, "reconstructed_weight_atol": 0.0002},
    }
    tensors = {
        "state.weight": weight,
        "input.calibration": sequences,
        "output.weight.ria.adapted": naive.reconstructed(weight, sequences, keep),
    }
    assert failures(tmp_path, document, tensors) == []


@pytest.mark.parametrize(("pruned", "of", "columns"), [(2, 4, 20), (3, 4, 16), (1, 4, 24), (4, 8, 32), (1, 2, 10)])
@pytest.mark.parametrize("importance", ["sum", "retained_degree_unstructured", "retained_degree_per_outneuron"])
def test_orders_keep_what_trying_every_deal_keeps(
    pruned: int, of: int, columns: int, importance: str, tmp_path: Path
) -> None:
    weight, sequences = linear(7, columns, seed=of)
    values = naive.score("ria", weight, naive.energy(sequences), 0.5)
    order = naive.dealt(values, of, importance, 0.5)
    modes, tensors = {}, {"state.weight": weight, "input.calibration": sequences, "output.score": values}
    for refine in (False, True):
        name = f"{pruned}of{of}.{importance}.{'heuristic_lsa' if refine else 'heuristic'}"
        chosen = naive.refined(values, list(order), of - pruned, of) if refine else order
        keep = np.zeros_like(values, dtype=np.int64)
        keep[:, chosen] = naive.n_of_m(values[:, chosen], of - pruned, of)
        modes[name] = {
            "pruned": pruned,
            "of": of,
            "importance_score": importance,
            "linear_sum_assignment": refine,
            "retained_score": float((values * keep).sum()),
        }
        tensors |= {f"output.permutation.{name}": np.array(chosen), f"output.keep_mask.{name}": keep}
    document = {"system": "channel_permutation", "config": {"modes": modes}, "tolerance": {"retained_score_rtol": 1e-4}}
    assert failures(tmp_path, document, tensors) == []


SIZES = {
    "vocab_size": 32,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
CONFIG = SIZES | {"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
PARTS = [f"self_attn.{x}_proj" for x in "qkvo"] + [f"mlp.{x}_proj" for x in ("gate", "up", "down")]
NAMES = [f"model.layers.{layer}.{part}" for layer in range(2) for part in PARTS]


def network(seed: int) -> nn.Module:
    return tiny_network(seed, rms_norm_eps=1e-5, max_position_embeddings=64, **SIZES)


def ids(seed: int, shape: tuple[int, int]) -> torch.Tensor:
    return torch.randint(32, shape, generator=torch.Generator().manual_seed(seed))


def weights(of: nn.Module) -> dict[str, Matrix]:
    return {name: of.get_parameter(f"{name}.weight").double().numpy() for name in NAMES}


@torch.no_grad()
def put(into: nn.Module, name: str, value: Matrix) -> None:
    into.get_parameter(f"{name}.weight").copy_(torch.as_tensor(value))


def curvature(of: nn.Module, sequences: torch.Tensor) -> dict[str, tuple[Matrix, Matrix]]:
    """A and G by definition: inputs of every matrix, and gradients of the loss by what it puts out."""
    count = sequences.numel()
    found = {name: [np.zeros((n.in_features,) * 2), np.zeros((n.out_features,) * 2)] for name, n in _linears(of)}
    for sequence in sequences:
        seen: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}
        handles = [linear.register_forward_hook(_keeping(seen)) for _, linear in _linears(of)]
        of.requires_grad_(True)
        logits = of(input_ids=sequence[None], use_cache=False).logits[0]
        loss = functional.cross_entropy(logits[:-1], sequence[1:])
        gradients = torch.autograd.grad(loss, [seen[linear][1] for _, linear in _linears(of)])
        of.requires_grad_(False)
        for handle in handles:
            handle.remove()
        for (name, linear), gradient in zip(_linears(of), gradients, strict=True):
            for t in range(len(sequence)):
                a, g = seen[linear][0][0, t].detach().double().numpy(), gradient[0, t].double().numpy()
                found[name][0] += np.outer(a, a) / count
                found[name][1] += np.outer(g, g) / count
    return {name: naive.balanced(a, g) for name, (a, g) in found.items()}


def _keeping(seen: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]]) -> Any:
    return lambda module, inputs, output: seen.__setitem__(module, (inputs[0], output))


def _linears(of: nn.Module) -> list[tuple[str, nn.Linear]]:
    return [(name, of.get_submodule(name)) for name in NAMES]  # type: ignore[misc]


def surgeon_case(seed: int, **settings: Any) -> tuple[dict[str, Any], dict[str, Any], nn.Module, torch.Tensor]:
    """Document, tensors without answers, network, calibration."""
    model, calibration, test = network(seed), ids(seed, (4, 12)), ids(seed + 1, (2, 10))
    state = {f"state.{name}": value.clone() for name, value in model.state_dict().items()}
    tensors = state | {"input.calibration_ids": calibration, "input.test_ids": test}
    tensors["output.dense.logits"] = model(input_ids=test).logits
    tolerance = {"curvature_rtol": 1e-3, "cost_rtol": 5e-3, "logits_atol": 0.02}
    document = {"system": "llm_surgeon", "config": CONFIG | settings, "tolerance": tolerance}
    return document, tensors, model, calibration


@pytest.mark.parametrize(
    ("seed", "target", "shots", "damping"), [(3, 0.3, 1, 0.01), (5, 0.15, 1, 0.1), (9, 0.3, 3, 0.01)]
)
def test_a_surgeon_cuts_rows_and_columns_as_the_formulas_say(
    seed: int, target: float, shots: int, damping: float, tmp_path: Path
) -> None:
    asked = {"target_sparsity": target, "shots": shots, "damp_a": damping, "damp_g": damping}
    document, tensors, model, calibration = surgeon_case(seed, pruned_structures=["row", "column"], **asked)
    for shot in range(1, shots + 1):
        factors, before = curvature(model, calibration), weights(model)
        costs = {name: naive.structure_costs(before[name], *factors[name], damping) for name in NAMES}
        gone = naive.structures_below(costs, shot * target / shots)
        for name in NAMES:
            put(model, name, naive.without_structures(before[name], *factors[name], damping, gone[name]))
            if shot == 1:
                tensors[f"output.shot1.input_curvature.{name}"] = factors[name][0]
                tensors[f"output.shot1.output_curvature.{name}"] = factors[name][1]
                tensors[f"output.shot1.row_cost.{name}"], tensors[f"output.shot1.column_cost.{name}"] = costs[name]
    for name, weight in weights(model).items():
        tensors[f"output.weight.{name}.weight"] = weight.copy()
        tensors[f"output.row_kept.{name}.weight"] = (weight != 0).any(axis=1).astype(np.int64)
        tensors[f"output.column_kept.{name}.weight"] = (weight != 0).any(axis=0).astype(np.int64)
    tensors["output.logits"] = model(input_ids=tensors["input.test_ids"]).logits
    assert failures(tmp_path, document, tensors) == []


@pytest.mark.parametrize("pattern", ["element", "2:4"])
def test_a_surgeon_removes_weights_as_the_formulas_say(pattern: str, tmp_path: Path) -> None:
    document, tensors, model, calibration = surgeon_case(6, target_sparsity=0.4, pruned_structures=[pattern])
    factors, before = curvature(model, calibration), weights(model)
    costs = {name: naive.weight_costs(before[name], *factors[name], 0.01) for name in NAMES}
    gone = _cheapest(costs, 0.4) if pattern == "element" else _cheapest_pairs(costs, 0.4)
    for name in NAMES:
        put(model, name, naive.without_weights(before[name], *factors[name], 0.01, gone[name]))
        tensors[f"output.shot1.element_cost.{name}"] = costs[name]
        tensors[f"output.weight.{name}.weight"] = weights(model)[name].copy()
    tensors["output.logits"] = model(input_ids=tensors["input.test_ids"]).logits
    assert failures(tmp_path, document, tensors) == []


def _cheapest(costs: dict[str, Matrix], target: float) -> dict[str, naive.Mask]:
    every = sorted(cost for matrix in costs.values() for cost in matrix.flatten())
    return {name: matrix <= every[int(target * len(every))] for name, matrix in costs.items()}


def _cheapest_pairs(costs: dict[str, Matrix], target: float) -> dict[str, naive.Mask]:
    """Of the cheapest groups of four, the two cheapest weights."""
    pairs = {name: np.sort(m.reshape(-1, 4), axis=1)[:, :2].sum(axis=1) for name, m in costs.items()}
    every = sorted(cost for one in pairs.values() for cost in one)
    bar = every[int(2 * target * len(every))]
    found = {}
    for name, matrix in costs.items():
        chosen = (pairs[name] <= bar).reshape(len(matrix), -1).repeat(4, axis=1)
        found[name] = ~naive.n_of_m(matrix, 2, 4) & chosen
    return found


@pytest.mark.parametrize(
    ("mode", "method"),
    [
        ({"pruned": 0, "of": 0}, "ria"),
        ({"pruned": 0, "of": 0, "sparsity_ratio": 0.3}, "wanda"),
        ({"pruned": 1, "of": 4}, "ria"),
        ({"pruned": 4, "of": 8}, "magnitude"),
    ],
    ids=["ria", "wanda", "1of4", "magnitude-4of8"],
)
def test_layers_are_pruned_from_activations_of_pruned_layers(mode: dict[str, Any], method: str, tmp_path: Path) -> None:
    model, calibration, test = network(8), ids(1, (5, 11)), ids(2, (2, 9))
    tensors: dict[str, Any] = {f"state.{name}": value.clone() for name, value in model.state_dict().items()}
    tensors |= {"input.calibration_ids": calibration, "input.test_ids": test}
    for layer in range(2):
        masks = {}
        for name, inputs in _inputs(model, calibration, [n for n in NAMES if f"layers.{layer}." in n]).items():
            values = naive.score(method, weights(model)[name], naive.energy(inputs), 0.5)
            share = mode.get("sparsity_ratio", 0.5)
            if mode["pruned"]:
                masks[name] = naive.n_of_m(values, mode["of"] - mode["pruned"], mode["of"])
            else:
                masks[name] = (
                    naive.per_output(values, share) if method == "wanda" else naive.whole_matrix(values, share)
                )
        for name, keep in masks.items():
            put(model, name, weights(model)[name] * keep)
            tensors[f"output.mine.keep_mask.{name}.weight"] = keep.astype(np.int64)
    tensors["output.mine.logits"] = model(input_ids=test).logits
    config = CONFIG | {"prune_method": method, "modes": {"mine": mode}}
    document = {"system": "ria", "config": config, "tolerance": {"logits_atol": 2e-3, "logits_rtol": 1e-3}}
    assert failures(tmp_path, document, tensors) == []


@torch.no_grad()
def _inputs(of: nn.Module, sequences: torch.Tensor, names: list[str]) -> dict[str, Matrix]:
    """What enters each matrix when the whole network runs: [n, T, C]."""
    found: dict[str, list[Matrix]] = {name: [] for name in names}
    for sequence in sequences:
        seen: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}
        handles = [of.get_submodule(name).register_forward_hook(_keeping(seen)) for name in names]
        of(input_ids=sequence[None], use_cache=False)
        for name, handle in zip(names, handles, strict=True):
            found[name].append(seen[of.get_submodule(name)][0][0].double().numpy())
            handle.remove()
    return {name: np.stack(entering) for name, entering in found.items()}
