"""Both networks become ONNX graphs (dynamo, opset 20) that answer as eager torch does, at the edges of every axis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

Make = Callable[..., nn.Module]
pytestmark = pytest.mark.filterwarnings("ignore")  # the exporter warns about its own dependencies


def session(network: nn.Module, example: tuple[Tensor, ...], axes: tuple[dict[int, Any], ...], path: Path) -> Any:
    names = ["x_enc", "x_mark_enc"][: len(example)]
    torch.onnx.export(
        network,
        example,
        str(path),
        dynamo=True,
        opset_version=20,
        input_names=names,
        dynamic_shapes=axes,
        verbose=False,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(graph: Any, network: nn.Module, *inputs: Tensor) -> float:
    feed = {entry.name: tensor.numpy() for entry, tensor in zip(graph.get_inputs(), inputs, strict=True)}
    (answer,) = graph.run(None, feed)
    eager = network(*inputs)
    assert answer.shape == tuple(eager.shape)
    return float((torch.from_numpy(answer) - eager).abs().max())


def test_itransformer_graph_matches_eager_within_1e_5_for_any_batch_variates_and_marks(
    small: Make, tmp_path: Path
) -> None:
    network, batch = small("itransformer"), Dim("batch", min=1)
    axes = ({0: batch, 2: Dim("variates", min=1)}, {0: batch, 2: Dim("marks", min=0)})
    graph = session(network, (torch.randn(3, 24, 3), torch.rand(3, 24, 4)), axes, tmp_path / "graph.onnx")
    for rows, variates, marks in [(1, 3, 4), (7, 3, 4), (1, 3, 0), (7, 1, 0), (2, 64, 5), (1, 1, 1)]:
        x, m = torch.randn(rows, 24, variates), torch.rand(rows, 24, marks) - 0.5
        assert difference(graph, network, x, m) <= 1e-5, (rows, variates, marks)


@pytest.mark.parametrize("use_statistic", [False, True])
def test_card_graph_matches_eager_within_5e_5_for_any_batch(small: Make, tmp_path: Path, use_statistic: bool) -> None:
    network = small("card", use_statistic=use_statistic, e_layers=1)
    graph = session(network, (torch.randn(3, 96, 3),), ({0: Dim("batch", min=1)},), tmp_path / "graph.onnx")
    for rows in (1, 7):
        assert difference(graph, network, torch.randn(rows, 96, 3)) <= 5e-5
