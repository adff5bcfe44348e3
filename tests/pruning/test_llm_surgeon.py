"""Costs and corrections against the quadratic they come from, the global threshold, and shots on a tiny network."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny_network
from torch import Tensor, nn

from export.prune_surgeon import matrices_of
from models.pruning.errors import PruningError
from models.pruning.llm_surgeon.costs import column_costs, damped_inverse, live_part, row_costs, weight_costs
from models.pruning.llm_surgeon.curvature import collect
from models.pruning.llm_surgeon.shots import STRUCTURES, WEIGHTS, Surgeon, costs_of, cut_all
from models.pruning.llm_surgeon.threshold import NOTHING, structure_threshold, weight_threshold
from models.pruning.llm_surgeon.update import Correction, remove_structures, remove_weights
from models.pruning.pattern import NM

ROWS, COLUMNS = 4, 5


def factor(size: int, seed: int) -> Tensor:
    root = torch.randn(size, 2 * size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (root @ root.T / size).float()


A, G = factor(COLUMNS, 1), factor(ROWS, 2)
INVERSES = (damped_inverse(A, 0.0), damped_inverse(G, 0.0))
W = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(3))


def loss(after: Tensor) -> float:
    """1/2 d^T (G x A) d: what the surgeon minimises."""
    change = (after - W).double()
    return float(0.5 * (change * (G.double() @ change @ A.double())).sum())


def best_without(removed: Tensor) -> Tensor:
    """The exact minimum over all weights with those zero, from the Kronecker product written out."""
    fisher, free = torch.kron(G.double(), A.double()), ~removed.flatten()
    target = -W.double().flatten() * removed.flatten()
    change = target.clone()
    change[free] = -torch.linalg.solve(fisher[free][:, free], fisher[free][:, ~free] @ target[~free])
    return W + change.reshape(W.shape).float()


def test_a_weight_costs_what_its_best_removal_adds_to_the_loss() -> None:
    removed = torch.zeros(ROWS, COLUMNS, dtype=torch.bool)
    removed[1, 2] = True
    cost = weight_costs(live_part(W, A, G), *INVERSES)[1, 2]
    assert float(cost) == pytest.approx(loss(best_without(removed)), rel=1e-4)


def test_a_row_costs_what_its_best_removal_adds_to_the_loss() -> None:
    removed = torch.zeros(ROWS, COLUMNS, dtype=torch.bool)
    removed[2] = True
    assert float(row_costs(live_part(W, A, G), INVERSES[1])[2]) == pytest.approx(loss(best_without(removed)), rel=1e-4)


def test_a_column_costs_what_its_best_removal_adds_to_the_loss() -> None:
    removed = torch.zeros(ROWS, COLUMNS, dtype=torch.bool)
    removed[:, 3] = True
    cost = column_costs(live_part(W, A, G), INVERSES[0])[3]
    assert float(cost) == pytest.approx(loss(best_without(removed)), rel=1e-4)


def test_weights_removed_together_are_corrected_to_the_minimum() -> None:
    removed = torch.rand(ROWS, COLUMNS, generator=torch.Generator().manual_seed(4)) < 0.5
    after = remove_weights(W, INVERSES, removed, Correction())
    torch.testing.assert_close(after, best_without(removed), atol=1e-4, rtol=1e-3)
    assert (after[removed] == 0).all()


@pytest.mark.parametrize(("rows", "columns"), [([0, 2], []), ([], [1, 4])])
def test_rows_or_columns_removed_together_are_corrected_to_the_minimum(rows: list[int], columns: list[int]) -> None:
    r, c = torch.zeros(ROWS, dtype=torch.bool), torch.zeros(COLUMNS, dtype=torch.bool)
    r[rows], c[columns] = True, True
    after = remove_structures(W, INVERSES, r, c, Correction())
    torch.testing.assert_close(after, best_without(r[:, None] | c), atol=1e-4, rtol=1e-3)


def test_rows_and_columns_are_both_corrected_from_the_weights_before_the_shot() -> None:
    r, c = torch.zeros(ROWS, dtype=torch.bool), torch.zeros(COLUMNS, dtype=torch.bool)
    r[1], c[0] = True, True
    none = torch.zeros_like(r), torch.zeros_like(c)
    both = remove_structures(W, INVERSES, r, c, Correction())
    alone = remove_structures(W, INVERSES, r, none[1], Correction()) + remove_structures(
        W, INVERSES, none[0], c, Correction()
    )
    kept = ~(r[:, None] | c)
    torch.testing.assert_close(both[kept], (alone - W)[kept])


def test_additive_correction_of_single_steps_counts_what_came_before() -> None:
    removed = torch.zeros(ROWS, COLUMNS, dtype=torch.bool)
    removed[0, 0] = removed[1, 1] = True
    plain = remove_weights(W, INVERSES, removed, Correction(together=1))
    additive = remove_weights(W, INVERSES, removed, Correction(together=1, additive=True))
    first = torch.zeros_like(removed)
    first[0, 0] = True
    after_first = remove_weights(W, INVERSES, first, Correction())
    second = removed & ~first
    expected = remove_weights(after_first, INVERSES, second, Correction()).masked_fill(removed, 0.0)
    torch.testing.assert_close(additive, expected)
    assert not torch.allclose(plain, additive)


def test_dead_rows_and_columns_cost_nothing_and_stay_dead() -> None:
    weight, inputs = W.clone(), A.clone()
    weight[0] = 0
    inputs[2], inputs[:, 2] = 0, 0
    live = live_part(weight, inputs, G)
    assert (live.rows.tolist(), live.columns.tolist()) == ([False, True, True, True], [True, True, False, True, True])
    assert live.whole(live.weight)[:, 2].tolist() == [0, 0, 0, 0]


def test_the_weight_threshold_is_a_cost_at_the_sorted_position() -> None:
    assert weight_threshold([torch.tensor([[5.0, 1.0]]), torch.tensor([[3.0, 2.0]])], 0.5) == 3.0


def test_crossings_of_rows_and_columns_count_once() -> None:
    """2 x 2 twice: a row of one (2 weights), then its column (1 more); the other matrix is dear. 3 of 8 weights."""
    cheap = (torch.tensor([1.0, 9.0]), torch.tensor([2.0, 9.0]))
    dear = (torch.tensor([7.0, 8.0]), torch.tensor([9.0, 9.0]))
    assert structure_threshold([cheap, dear], 3 / 8) == 2.0
    assert structure_threshold([cheap, dear], 2.9 / 8) == 1.0


def test_a_target_smaller_than_the_cheapest_structure_removes_nothing() -> None:
    assert structure_threshold([(torch.tensor([1.0]), torch.tensor([1.0, 2.0]))], 0.1) == NOTHING


SEQUENCES = [torch.randint(96, (1, 16), generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


def operated(surgeon: Surgeon) -> tuple[nn.Module, dict[str, nn.Linear]]:
    network = tiny_network()
    matrices = matrices_of(network)
    for target in surgeon.targets():
        curvature = collect(network, matrices, SEQUENCES, len(SEQUENCES))
        for _ in cut_all(matrices, curvature, surgeon, target):
            pass
    return network, matrices


def zero_share(matrices: dict[str, nn.Linear]) -> float:
    zeros = sum(int((linear.weight == 0).sum()) for linear in matrices.values())
    return zeros / sum(linear.weight.numel() for linear in matrices.values())


@pytest.mark.parametrize("parts", [WEIGHTS, STRUCTURES, NM(2, 4)], ids=str)
def test_two_shots_reach_the_sparsity_asked_for(parts: str | NM) -> None:
    _, matrices = operated(Surgeon(sparsity=0.25, parts=parts, shots=2, correction=Correction(together=64)))
    assert zero_share(matrices) == pytest.approx(0.25, abs=0.005)


def test_a_full_pattern_of_weights_holds_in_every_matrix() -> None:
    _, matrices = operated(Surgeon(sparsity=0.5, parts=NM(2, 4), correction=Correction(together=64)))
    assert [name for name, linear in matrices.items() if not NM(2, 4).obeyed_by(linear.weight)] == []


@pytest.mark.parametrize("seed", range(5))
def test_a_corrected_removal_never_costs_more_than_zeroing(seed: int) -> None:
    removed = torch.rand(ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed)) < 0.4
    assert loss(remove_weights(W, INVERSES, removed, Correction())) <= loss(W.masked_fill(removed, 0.0))


def test_curvature_leaves_no_hooks_and_no_gradients_behind() -> None:
    network = tiny_network()
    matrices = matrices_of(network)
    found = collect(network, matrices, SEQUENCES, len(SEQUENCES))
    assert not any(module._forward_hooks for module in network.modules())
    assert all(parameter.grad is None for parameter in network.parameters())
    for curvature in found.values():
        inputs, outputs = curvature.factors()
        assert float(inputs.norm()) == pytest.approx(float(outputs.norm()), rel=1e-4)


def test_costs_of_a_matrix_that_never_fired_are_zero() -> None:
    network = tiny_network()
    matrices = matrices_of(network)
    found = collect(network, matrices, SEQUENCES, len(SEQUENCES))
    name = next(iter(matrices))
    found[name].outputs.zero_()
    rows, columns = costs_of(matrices[name].weight, found[name], Surgeon(sparsity=0.5))
    assert (rows == 0).all()
    assert (columns == 0).all()


@pytest.mark.parametrize(
    ("settings", "words"), [({"shots": 0}, "whole number from 1"), ({"sparsity": 0.6}, "at most 0.5")]
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(PruningError, match=words):
        Surgeon(**({"sparsity": 0.5, "parts": NM(2, 4)} | settings))  # type: ignore[arg-type]
