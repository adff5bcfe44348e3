"""gRPC answers alike, whichever transport carries it."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from asking import rpc, rpc_output, rpc_refusal
from grpc_health.v1 import health_pb2, health_pb2_grpc
from refusals import infer_message
from tiny_server import message, running_tiny


@pytest.mark.parametrize("transport", ["http2", "grpcio"])
def test_calls_refusals_and_health_are_the_same_over_either(tiny_home: Path, tmp_path: Path, transport: str) -> None:
    with running_tiny(tiny_home, tmp_path, grpc_transport=transport) as tiny:
        assert rpc_output(rpc(tiny.server, "ModelInfer", message(3.0, 4.0))).ravel().tolist() == [9.0, 12.0]
        refusal = rpc_refusal(tiny.server, "ModelInfer", infer_message("nothing"))
        assert (refusal.status, refusal.code) == ("NOT_FOUND", "model_not_found")
        with grpc.insecure_channel(tiny.server.grpc_address) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
