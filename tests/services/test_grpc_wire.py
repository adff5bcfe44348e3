"""Answers written byte by byte are what protobuf would have written, read back by protobuf."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.oip import grpc_wire
from services.core.oip.messages import ModelInferResponse, ModelStreamInferResponse

_FIELDS = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
values = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=200)
outputs = st.lists(
    st.tuples(
        st.text(max_size=20),
        st.sampled_from(["FP32", "BYTES"]),
        st.lists(st.integers(0, 2**40), max_size=8).map(tuple),
        st.binary(max_size=300),
    ),
    max_size=3,
)


def by_protobuf(model: str, version: str, request_id: str, parameters: dict[str, Any], tensors: list[Any]) -> Any:
    message = ModelInferResponse(model_name=model, model_version=version, id=request_id)
    for name, value in parameters.items():
        setattr(message.parameters[name], _FIELDS[type(value)], value)
    for name, datatype, shape, raw in tensors:
        message.outputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_output_contents.append(raw)
    return message


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=150), st.text(max_size=5), st.text(max_size=5), st.dictionaries(st.text(), values), outputs)
def test_a_response_is_the_message_protobuf_makes(
    model: str, version: str, request_id: str, parameters: dict[str, Any], tensors: list[Any]
) -> None:
    expected = by_protobuf(model, version, request_id, parameters, tensors)
    raw = grpc_wire.response(model, version, request_id, parameters, tensors)
    assert ModelInferResponse.FromString(raw) == expected
    streamed = ModelStreamInferResponse.FromString(grpc_wire.stream_response(raw))
    assert streamed == ModelStreamInferResponse(infer_response=expected)
