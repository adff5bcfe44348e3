"""Pressed graphs behind a server: closed-form answers over every way in, and the page that describes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import AFFINE
from live_server import LiveServer
from pressroom_client import APIStatusError, AsyncClient, Client

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, Reader

PAGE = ROOT / "docs" / "onnx.md"
X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = X @ AFFINE + 1


def address(server: LiveServer, transport: str) -> str:
    return server.url if transport == "http" else f"grpc://{server.grpc_address}"


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_tensors_go_in_and_come_out(transport: str, graph_server: LiveServer) -> None:
    with Client(address(graph_server, transport)) as client:
        answer = client.infer("affine", {"x": X})
        np.testing.assert_allclose(answer.outputs["y"], Y, rtol=1e-6)
        table, index = np.arange(8.0).reshape(2, 4) / 10, np.array([[3], [1]])
        picked = client.infer("pick", {"table": table, "index": index}).outputs
    assert picked["picked"].tolist() == [[0.3], [0.5]]
    assert picked["picked"].dtype == np.float64
    assert picked["large"].tolist() == [[False], [False]]


@pytest.mark.asyncio
@pytest.mark.parametrize("transport", ["http", "grpc"])
async def test_the_asynchronous_client_gets_the_same(transport: str, graph_server: LiveServer) -> None:
    async with AsyncClient(address(graph_server, transport)) as client:
        answer = await client.infer("affine", {"x": X})
    np.testing.assert_allclose(answer.outputs["y"], Y, rtol=1e-6)


def test_tensors_travel_as_json_too(graph_server: LiveServer) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [4, 3], "data": X.ravel().tolist()}
    answer = graph_server.post("/v2/models/affine/infer", json={"inputs": [tensor]}).json()
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [4, 2])
    np.testing.assert_allclose(np.reshape(output["data"], (4, 2)), Y, rtol=1e-6)


def test_nested_lists_are_answered_with_nested_lists(graph_server: LiveServer) -> None:
    answer = graph_server.post("/v1/tensors", json={"model": "affine", "inputs": {"x": X.tolist()}}).json()
    np.testing.assert_allclose(answer["outputs"]["y"], Y, rtol=1e-6)
    assert answer["model"] == "affine"
    assert answer["batch_rows"] >= 4


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"inputs": {"x": [[1, 2]]}}, "tensor_shape", "x"),
    ({"inputs": {"x": [[1, 2], [1]]}}, "tensor_size", "x"),
    ({"inputs": {"x": [[1, 2, None]]}}, "value_not_finite", "x"),
    ({"inputs": {"x": [["a", "b", "c"]]}}, "value_not_numeric", "x"),
    ({"inputs": {"z": [[1, 2, 3]]}}, "tensor_unexpected", "inputs"),
    ({"inputs": {"x": 3}}, "invalid_request", "x"),
    ({"inputs": {}}, "invalid_request", "inputs"),
    ({"inputs": {"x": [[1, 2, 3]]}, "tensors": {}}, "invalid_request", "tensors"),
]


@pytest.mark.parametrize(("request_body", "code", "field"), BROKEN, ids=[str(body) for body, _, _ in BROKEN])
def test_broken_nested_lists_are_refused_by_name(
    request_body: dict[str, Any], code: str, field: str, graph_server: LiveServer
) -> None:
    answer = graph_server.post("/v1/tensors", json={"model": "affine", **request_body})
    assert answer.status_code == 422
    assert (answer.json()["error"]["code"], answer.json()["error"]["field"]) == (code, field)


def test_an_answer_that_is_not_finite_is_refused_and_not_sent_as_null(graph_server: LiveServer) -> None:
    with Client(graph_server.url, retries=0) as client, pytest.raises(APIStatusError) as refused:
        client.infer("affine", {"x": np.full((1, 3), 3e38, np.float32)})
    assert refused.value.code == "inference_failed"


def test_the_page_runs(graph_server: LiveServer, tmp_path: Path) -> None:
    reader = Reader(home=tmp_path / "home", scratch=tmp_path, ports=(graph_server.port, graph_server.grpc_port))
    assert reader.follow_page(PAGE) >= 1
