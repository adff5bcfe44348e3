"""Sends a case to a server and holds its refusal against what the table says."""

from __future__ import annotations

import json
import re
from typing import Any

import etth1
import grpc
import httpx
from live_server import LiveServer
from raw_http import RawConnection
from refusals import check_envelope, check_http, check_rpc_error
from tritonclient.grpc import service_pb2

from .case import GrpcCase, HttpCase

_OUR_FILES = re.compile(rb"\w+\.py\b|line \d+|/ho[m]e/|/tmp/|bentoml", re.IGNORECASE)


def refused_http(server: LiveServer, case: HttpCase) -> dict[str, Any]:
    """The error of a case over HTTP, once everything about it is as it must be."""
    with RawConnection(server) as connection:
        connection.send(case.wire())
        answer = connection.answer()
    assert not _OUR_FILES.search(answer.body), answer.body[:500]
    response = httpx.Response(answer.status, headers=answer.headers, content=answer.body)
    return check_http(response, case.status, case.code, case.field)


def refused_grpc(channel: grpc.Channel, case: GrpcCase) -> dict[str, Any]:
    """The error of a case over gRPC, once everything about it is as it must be."""
    if case.call == "ModelStreamInfer":
        return _refused_in_stream(channel, case)
    try:
        if case.path.endswith(("Info", "Watch")):
            answer = next(channel.stream_stream(case.path)(iter([case.message]), timeout=30, metadata=case.metadata))
        else:
            answer = channel.unary_unary(case.path)(case.message, timeout=30, metadata=case.metadata)
    except grpc.RpcError as refused:
        error = check_rpc_error(refused, case.status, case.code, case.field)
        assert not _OUR_FILES.search(refused.details().encode()), refused.details()
        return error
    raise AssertionError(f"expected {case.code}, got an answer: {answer[:300]!r}")


def _refused_in_stream(channel: grpc.Channel, case: GrpcCase) -> dict[str, Any]:
    """A refused request of the stream is an answer of it, and the stream goes on."""
    call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
    answers = list(call(iter([case.message, case.message]), timeout=30, metadata=case.metadata))
    assert len(answers) == 2
    errors = [json.loads(service_pb2.ModelStreamInferResponse.FromString(a).error_message) for a in answers]
    return [check_envelope(document, case.code, case.field) for document in errors][-1]


def answers_well(server: LiveServer) -> None:
    """A good request is answered, and the server says it is ready."""
    answer = server.post(etth1.FORECAST, json=etth1.request())
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["series"][0]["values"]["OT"]) == etth1.HORIZON
    assert server.get("/readyz").status_code == 200
