"""A shrunk network answers as the masked one, and its corrected twin better than a cut one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import GROUPS, HEADS, WIDTH, tiny_network
from torch import nn

from export.prune_surgeon import matrices_of
from models.llm.blocks import decoder_layers, matrix_name
from models.llm.walk import enter
from models.pruning.aligned import DOWN, OUT, Aligned, block_costs, shrink_by_curvature, shrink_by_score
from models.pruning.calibration import observe, unobserved
from models.pruning.errors import PruningError
from models.pruning.llm_surgeon.curvature import collect
from models.pruning.shrink import Heads, highest, kept_width, shrink_attention, shrink_mlp

GEOMETRY = Heads(HEADS, GROUPS, WIDTH // HEADS)
IDS = torch.randint(96, (4, 24), generator=torch.Generator().manual_seed(0))


def logits(network: nn.Module) -> torch.Tensor:
    return network(input_ids=IDS, use_cache=False).logits  # type: ignore[no-any-return]


@torch.no_grad()
def test_a_shrunk_network_answers_as_the_masked_one() -> None:
    channels, groups = torch.tensor([*range(40), *range(50, 58)]), torch.tensor([1])
    masked, shrunk = tiny_network(), tiny_network()
    gone = torch.ones(64, dtype=torch.bool).index_fill_(0, channels, False)
    gone_heads = torch.ones(WIDTH, dtype=torch.bool).index_fill_(0, GEOMETRY.query_rows(groups), False)
    for before, after in zip(decoder_layers(masked), decoder_layers(shrunk), strict=True):
        before.get_parameter("mlp.down_proj.weight")[:, gone] = 0
        before.get_parameter("self_attn.o_proj.weight")[:, gone_heads] = 0
        shrink_mlp(after, channels)
        shrink_attention(after, groups, GEOMETRY)
        assert after.get_parameter("mlp.gate_proj.weight").shape == (48, WIDTH)
        assert after.get_parameter("self_attn.q_proj.weight").shape == (WIDTH // 2, WIDTH)
        assert after.get_parameter("self_attn.k_proj.weight").shape == (WIDTH // HEADS, WIDTH)
    torch.testing.assert_close(logits(shrunk), logits(masked), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_channel_that_contributes_nothing_is_the_first_to_go() -> None:
    network = tiny_network()
    before = None
    for index, layer in enumerate(decoder_layers(network)):
        layer.get_parameter("mlp.down_proj.weight")[:, [3 + index, 9, 17, 25, 33, 41, 49, 57]] = 0
    before = logits(network)
    entry = enter(network, IDS)
    aligned = Aligned(sparsity=8 / 64, heads=GEOMETRY)
    for layer in decoder_layers(network):
        kept = shrink_by_score(layer, unobserved(layer), "magnitude", aligned)
        assert len(kept.channels) == 56
    torch.testing.assert_close(logits(network), before, atol=1e-5, rtol=1e-5)
    assert entry.hidden.shape == (4, 24, WIDTH)


def by_score(network: nn.Module, method: str, aligned: Aligned) -> nn.Module:
    entry = enter(network, IDS)
    for layer in decoder_layers(network):
        shrink_by_score(layer, observe(layer, entry.hidden, entry.arguments[0]), method, aligned)
    return network


def by_curvature(network: nn.Module, aligned: Aligned) -> nn.Module:
    matrices = matrices_of(network)
    curvature = collect(network, matrices, [ids[None] for ids in IDS], len(IDS))
    for index, layer in enumerate(decoder_layers(network)):
        mine = {part: curvature[matrix_name(index, part)] for part in (DOWN, OUT)}
        with torch.no_grad():
            shrink_by_curvature(layer, mine, aligned)
    return network


def test_corrected_shrinking_moves_the_logits_less_than_shrinking_by_magnitude() -> None:
    aligned = Aligned(sparsity=0.5, heads=GEOMETRY, groups=1)
    want = logits(tiny_network())
    corrected = logits(by_curvature(tiny_network(), aligned))
    plain = logits(by_score(tiny_network(), "magnitude", aligned))
    assert float((corrected - want).norm()) < float((plain - want).norm())


def test_the_cost_of_one_column_alone_is_the_surgeons_column_cost() -> None:
    from models.pruning.llm_surgeon.shots import Surgeon, costs_of

    network = tiny_network()
    matrices = matrices_of(network)
    name = matrix_name(0, DOWN)
    curvature = collect(network, {name: matrices[name]}, [ids[None] for ids in IDS], len(IDS))[name]
    costs: Any = costs_of(matrices[name].weight, curvature, Surgeon(sparsity=0.5))
    torch.testing.assert_close(block_costs(matrices[name].weight, curvature, 1), costs[1])


def test_columns_together_cost_at_least_the_dearest_of_them() -> None:
    network = tiny_network()
    matrices = matrices_of(network)
    name = matrix_name(1, OUT)
    curvature = collect(network, {name: matrices[name]}, [ids[None] for ids in IDS], len(IDS))[name]
    alone = block_costs(matrices[name].weight, curvature, 1).reshape(GROUPS, -1)
    together = block_costs(matrices[name].weight, curvature, WIDTH // GROUPS)
    assert (together >= alone.max(dim=1).values * (1 - 1e-4)).all()


def test_query_heads_go_with_the_key_value_head_they_read() -> None:
    heads = Heads(heads=6, groups=3, head_dim=2)
    assert heads.query_rows(torch.tensor([0, 2])).tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert heads.key_rows(torch.tensor([0, 2])).tolist() == [0, 1, 4, 5]


def test_widths_stay_multiples_of_eight() -> None:
    assert kept_width(1536, 1 / 3) == 1024
    assert kept_width(64, 0.3) == 48  # 44.8 lies nearer to 48 than to 40


@pytest.mark.parametrize("sparsity", [0.01, 0.99])
def test_a_sparsity_that_rounds_to_none_or_all_is_refused(sparsity: float) -> None:
    with pytest.raises(PruningError, match="a share of 64 channels"):
        kept_width(64, sparsity)


def test_the_last_attention_group_stays() -> None:
    with pytest.raises(PruningError, match="0 to 1"):
        Aligned(sparsity=0.5, heads=GEOMETRY, groups=2)


def test_equal_costs_keep_the_first() -> None:
    assert highest(torch.tensor([1.0, 2.0, 2.0, 2.0]), 2).tolist() == [1, 2]
