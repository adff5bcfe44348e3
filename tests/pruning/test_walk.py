"""A network walked one layer at a time answers as the network itself, with one layer in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import LAYERS, tiny_folder, tiny_network

from export.errors import CheckpointFileError
from export.llm_folder import ModelFolder
from export.llm_layers import LayerwiseNetwork
from models.llm.blocks import ATTENTION, MLP, NotLlamaStyleError, decoder_layers, projections
from models.llm.walk import enter, logits_after, run_layer

IDS = torch.randint(96, (3, 20), generator=torch.Generator().manual_seed(0))


SLIDING = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Llama", {}),
        ("Mistral", {"sliding_window": 8}),
        ("Qwen2", SLIDING),
        ("Qwen3", {"head_dim": 16}),
        ("SmolLM3", {"pad_token_id": 0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_layers_called_one_by_one_give_the_networks_logits(kind: str, settings: dict[str, Any]) -> None:
    network = tiny_network(kind=kind, **settings)
    entry = enter(network, IDS)
    hidden = entry.hidden
    for layer, arguments in zip(decoder_layers(network), entry.arguments, strict=True):
        hidden = run_layer(layer, hidden, arguments)
    ours = torch.cat([logits_after(network, ids[None], last[None]) for ids, last in zip(IDS, hidden, strict=True)])
    torch.testing.assert_close(ours, network(input_ids=IDS).logits)


def test_recording_leaves_the_layers_as_they_were() -> None:
    network = tiny_network()
    enter(network, IDS)
    assert not any("forward" in layer.__dict__ for layer in decoder_layers(network))


def test_a_layer_has_weights_only_while_it_is_lent(tiny: Path) -> None:
    folder = ModelFolder(tiny / "model", "tiny")
    empty = LayerwiseNetwork(folder.path, folder)
    assert all(parameter.is_meta for layer in empty.layers for parameter in layer.parameters())
    with empty.layer(1, folder) as layer:
        assert not any(parameter.is_meta for parameter in layer.parameters())
        assert all(parameter.is_meta for parameter in empty.layers[0].parameters())
    assert all(parameter.is_meta for layer in empty.layers for parameter in layer.parameters())


def test_projections_are_the_seven_of_a_layer_in_order() -> None:
    layers = decoder_layers(tiny_network())
    assert len(layers) == LAYERS
    assert [one.name for one in projections(layers[0])] == [*ATTENTION, *MLP]


def test_a_network_of_another_shape_is_refused_by_the_part_it_lacks() -> None:
    with pytest.raises(NotLlamaStyleError, match=r"model\.layers"):
        decoder_layers(torch.nn.Linear(2, 2))


def test_a_layer_with_more_linear_maps_than_seven_is_refused() -> None:
    layer = decoder_layers(tiny_network())[0]
    layer.add_module("router", torch.nn.Linear(2, 2))
    with pytest.raises(NotLlamaStyleError, match="1 linear layers beyond"):
        projections(layer)


def test_tensors_that_do_not_fit_the_configuration_are_refused(tmp_path: Path) -> None:
    path = tiny_folder(tmp_path)
    config = (path / "config.json").read_text()
    (path / "config.json").write_text(config.replace('"intermediate_size": 64', '"intermediate_size": 72'))
    folder = ModelFolder(path, "tiny")
    empty = LayerwiseNetwork(path, folder)
    with pytest.raises(CheckpointFileError, match=r"layer 0: .*down_proj"), empty.layer(0, folder):
        pass
