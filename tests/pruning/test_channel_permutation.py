"""A permuted layer computes the masked layer's product; folding changes nothing but the order of sums."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_network
from torch import nn

from models.llm.blocks import decoder_layers
from models.pruning.channel_permutation import Search, find_order, keep_in_order, redeal, retained, zigzag
from models.pruning.errors import PruningError
from models.pruning.folding import fold_mlp
from models.pruning.pattern import NM
from models.pruning.permuted_linear import PermutedLinear


def scores(rows: int, columns: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, columns, generator=generator) * torch.rand(columns, generator=generator) ** 2


def test_channels_are_dealt_in_a_zigzag() -> None:
    assert zigzag(torch.arange(8), 4).tolist() == [0, 3, 4, 7, 1, 2, 5, 6]


def test_two_strong_neighbours_are_parted() -> None:
    score = torch.tensor([[9.0, 8.0, 1.0, 1.0]])
    order = find_order(score, NM(1, 2), Search(assignment=False))
    assert retained(score, NM(1, 2).keep(score)) == 10
    assert retained(score, keep_in_order(score, NM(1, 2), order)) == 17


def test_one_round_finds_the_best_of_all_ways_to_deal_a_slot() -> None:
    score, pattern = scores(5, 16, seed=3), NM(2, 4)
    found = score[:, redeal(score, pattern, slot=1)]
    candidates = []
    for places in permutations(range(4)):
        order = torch.arange(16).reshape(4, 4)
        order[:, 1] = order[list(places), 1]
        dealt = score[:, order.flatten()]
        candidates.append(retained(dealt, pattern.keep(dealt)))
    assert retained(found, pattern.keep(found)) == pytest.approx(max(candidates))


@given(st.integers(0, 2**31), st.sampled_from([(2, 4), (4, 8), (1, 4), (3, 4)]), st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=20)
def test_an_order_names_every_channel_once_and_refining_never_loses(
    seed: int, nm: tuple[int, int], blocks: int
) -> None:
    pattern, score = NM(*nm), scores(6, 32, seed)
    dealt = find_order(score, pattern, Search(assignment=False))
    refined = find_order(score, pattern, Search(blocks=blocks))
    assert refined.sort().values.tolist() == list(range(32))
    kept = [retained(score, keep_in_order(score, pattern, order)) for order in (dealt, refined)]
    assert kept[1] >= kept[0] * (1 - 1e-6)
    assert pattern.obeyed_by(keep_in_order(score, pattern, refined)[:, refined].float())


def test_a_second_pass_keeps_more_and_never_less() -> None:
    pattern, gains = NM(4, 8), []
    for seed in range(5):
        score = scores(12, 64, seed)
        once, twice = (find_order(score, pattern, Search(passes=passes)) for passes in (1, 2))
        kept = [retained(score, keep_in_order(score, pattern, order)) for order in (once, twice)]
        gains.append(kept[1] / kept[0] - 1)
    assert min(gains) >= -1e-6
    assert max(gains) > 1e-4


def test_a_permuted_layer_answers_as_the_masked_layer() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(32, 12).requires_grad_(False), torch.randn(3, 5, 32)
    order = find_order(linear.weight.abs(), NM(2, 4), Search())
    linear.weight.mul_(keep_in_order(linear.weight.abs(), NM(2, 4), order))
    permuted = PermutedLinear.of(linear, order)
    assert NM(2, 4).obeyed_by(permuted.weight)
    assert not NM(2, 4).obeyed_by(linear.weight)
    torch.testing.assert_close(permuted(x), linear(x))


def test_permuted_weights_without_permuted_inputs_answer_something_else() -> None:
    torch.manual_seed(0)
    weight, x, order = torch.randn(4, 8), torch.randn(8), torch.randperm(8)
    assert not torch.allclose(weight[:, order] @ x, weight @ x)


@pytest.mark.parametrize("bias", [False, True])
def test_an_order_folded_into_gate_and_up_leaves_the_network_as_it_was(bias: bool) -> None:
    network = tiny_network(mlp_bias=bias)
    if bias:
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.2)
    ids = torch.arange(20)[None]
    before = network(input_ids=ids).logits
    for layer in decoder_layers(network):
        mlp: nn.Module = layer.get_submodule("mlp")
        fold_mlp(mlp.gate_proj, mlp.up_proj, mlp.down_proj, torch.randperm(64))  # type: ignore[arg-type]
    torch.testing.assert_close(network(input_ids=ids).logits, before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("order", [[0, 1, 1, 3], [0, 1, 2], [[0, 1, 2, 3]]])
def test_an_order_that_is_no_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(PruningError, match="a permutation of 4 channels"):
        PermutedLinear(torch.ones(2, 4), torch.tensor(order))


def test_blocks_that_cut_a_group_are_refused() -> None:
    with pytest.raises(PruningError, match="a divisor of 4 groups"):
        find_order(torch.ones(2, 16), NM(2, 4), Search(blocks=3))


def test_no_pass_at_all_is_refused() -> None:
    with pytest.raises(PruningError, match="whole number from 1"):
        Search(passes=0)


def test_an_unknown_importance_is_refused() -> None:
    with pytest.raises(PruningError, match="retained_degree_unstructured"):
        Search(importance="norm")
