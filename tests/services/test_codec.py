"""The protocol's tensors on the wire: every data type there and back, and no bytes that make the reader fail unsaid."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.core.errors import CODES, ApiError
from services.core.oip.codec import decode_request, encode_response, from_raw_bytes, to_raw_bytes
from services.core.oip.grpc_codec import decode_tensors
from services.core.oip.grpc_codec import encode_response as encode_message
from services.core.oip.messages import ModelInferRequest, ModelInferResponse
from services.core.tensors import DTYPES

HEADER = b"inference-header-content-length"
VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False, True, True, False, False],
    "UINT8": [0, 1, 2, 254, 255, 7],
    "UINT16": [0, 1, 2, 3, 2**16 - 1, 7],
    "UINT32": [0, 1, 2, 3, 2**32 - 1, 7],
    "UINT64": [0, 1, 2, 3, 2**64 - 1, 7],
    "INT8": [-128, -1, 0, 1, 2, 127],
    "INT16": [-(2**15), -1, 0, 1, 2, 2**15 - 1],
    "INT32": [-(2**31), -1, 0, 1, 2, 2**31 - 1],
    "INT64": [-(2**63), -1, 0, 1, 2, 2**63 - 1],
    "FP16": [0.0, -1.5, 0.25, 65504.0, -65504.0, 2.0],
    "FP32": [0.0, -1.5, 0.25, 1e30, -1e-30, 2.0],
    "FP64": [0.0, -1.5, 0.1, 1e300, -1e-300, 2.0],
    "BYTES": [b"", b"a", b"two words", "Zähler".encode(), b'{"x": 1}', b"\n"],
}
every_datatype = pytest.mark.parametrize("datatype", VALUES)


def tensor(datatype: str) -> np.ndarray:
    """[2, 3] of the data type."""
    array = np.empty(6, dtype=DTYPES[datatype])
    array[:] = VALUES[datatype]
    return array.reshape(2, 3)


def body(*inputs: dict[str, Any], raw: bytes = b"", **more: Any) -> tuple[bytes, bytes | None]:
    """A request's bytes and its header length."""
    text = json.dumps({"inputs": list(inputs), **more}).encode()
    return text + raw, str(len(text)).encode() if raw else None


def raw_input(array: np.ndarray, datatype: str, name: str = "x") -> tuple[dict[str, Any], bytes]:
    raw = to_raw_bytes(array)
    entry = {"name": name, "datatype": datatype, "shape": list(array.shape)}
    return entry | {"parameters": {"binary_data_size": len(raw)}}, raw


def test_every_data_type_of_the_protocol_is_covered() -> None:
    assert VALUES.keys() == DTYPES.keys()


@every_datatype
def test_raw_bytes_are_little_endian_rows_and_come_back(datatype: str) -> None:
    array = tensor(datatype)
    raw = to_raw_bytes(array)
    if datatype == "BYTES":
        assert raw == b"".join(struct.pack("<I", len(item)) + item for item in VALUES["BYTES"])
    else:
        assert raw == np.array(VALUES[datatype], dtype=DTYPES[datatype].newbyteorder("<")).tobytes()
    np.testing.assert_array_equal(from_raw_bytes(raw, datatype, [2, 3], "x"), array)


@every_datatype
def test_a_raw_input_comes_in_and_goes_out(datatype: str) -> None:
    array = tensor(datatype)
    entry, raw = raw_input(array, datatype)
    request = decode_request(*body(entry, raw=raw, parameters={"binary_data_output": True}, id="7"))
    assert request.id == "7"
    np.testing.assert_array_equal(request.tensors["x"], array)
    assert request.tensors["x"].dtype == DTYPES[datatype]
    response = encode_response("m", "1", request.tensors, {}, request)
    (length,) = (int(value) for name, value in response.headers if name == HEADER)
    assert response.content_type == b"application/octet-stream"
    (output,) = orjson.loads(response.body[:length])["outputs"]
    assert output == entry
    assert response.body[length:] == raw


@every_datatype
@pytest.mark.parametrize("nested", [True, False])
def test_a_json_input_comes_in_and_goes_out(datatype: str, nested: bool) -> None:
    array = tensor(datatype)
    plain = [item.decode() if isinstance(item, bytes) else item for item in VALUES[datatype]]
    data = [plain[:3], plain[3:]] if nested else plain
    request = decode_request(*body({"name": "x", "datatype": datatype, "shape": [2, 3], "data": data}))
    np.testing.assert_array_equal(request.tensors["x"], array)
    assert request.tensors["x"].dtype == DTYPES[datatype]
    response = encode_response("m", "1", request.tensors, {}, request)
    (output,) = orjson.loads(response.body)["outputs"]
    assert (output["datatype"], output["shape"]) == (datatype, [2, 3])
    sent_back = output["data"] if datatype == "BYTES" else np.array(output["data"], dtype=DTYPES[datatype])
    np.testing.assert_array_equal(sent_back, plain if datatype == "BYTES" else array.ravel())


@pytest.mark.parametrize(
    ("datatype", "raw"),
    [(datatype, raw) for datatype in VALUES for raw in (True, False) if raw or datatype != "FP16"],  # no typed FP16
)
def test_a_grpc_input_comes_in_and_goes_out(datatype: str, raw: bool) -> None:
    array = tensor(datatype)
    message = ModelInferRequest(model_name="m")
    entry = message.inputs.add(name="x", datatype=datatype, shape=[2, 3])
    if raw:
        message.raw_input_contents.append(to_raw_bytes(array))
    else:
        getattr(entry.contents, _contents(datatype)).extend(VALUES[datatype])
    tensors = decode_tensors(message)
    np.testing.assert_array_equal(tensors["x"], array)
    answer = encode_message("m", "1", "id", tensors, {"a": True, "b": 2, "c": 0.5, "d": "e"})
    again = ModelInferResponse.FromString(answer)
    assert (again.outputs[0].datatype, list(again.outputs[0].shape)) == (datatype, [2, 3])
    assert list(again.raw_output_contents) == [to_raw_bytes(array)]
    said = {key: getattr(p, p.WhichOneof("parameter_choice")) for key, p in again.parameters.items()}
    assert said == {"a": True, "b": 2, "c": 0.5, "d": "e"}


def _contents(datatype: str) -> str:
    """The protocol's field of typed contents."""
    small = {"INT8": "int", "INT16": "int", "INT32": "int", "UINT8": "uint", "UINT16": "uint", "UINT32": "uint"}
    return f"{small.get(datatype, datatype.lower())}_contents"


@every_datatype
def test_zero_rows_are_a_tensor_like_any_other(datatype: str) -> None:
    array = np.empty((0, 3), dtype=DTYPES[datatype])
    assert from_raw_bytes(to_raw_bytes(array), datatype, [0, 3], "x").shape == (0, 3)
    request = decode_request(*body({"name": "x", "datatype": datatype, "shape": [0, 3], "data": []}))
    assert (request.tensors["x"].shape, request.tensors["x"].dtype) == ((0, 3), DTYPES[datatype])


def test_whole_numbers_are_read_where_floats_belong_and_not_the_other_way() -> None:
    request = decode_request(*body({"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]}))
    assert request.tensors["x"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ApiError) as refused:
        decode_request(*body({"name": "x", "datatype": "INT32", "shape": [2], "data": [1.5, 2.0]}))
    assert refused.value.code == "value_not_numeric"


def test_raw_inputs_are_taken_in_their_order() -> None:
    one, first = raw_input(tensor("FP32"), "FP32", "one")
    two, second = raw_input(tensor("INT64"), "INT64", "two")
    tensors = decode_request(*body(one, two, raw=first + second)).tensors
    np.testing.assert_array_equal(tensors["one"], tensor("FP32"))
    np.testing.assert_array_equal(tensors["two"], tensor("INT64"))


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x01\x00\x00", b"\x05\x00\x00\x00abc", b"\x01\x00\x00\x00a", b"\x01\x00\x00\x00a" * 3, b"\xff\xff\xff\xff"],
)
def test_bytes_that_do_not_hold_their_elements_are_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        from_raw_bytes(raw, "BYTES", [2], "x")
    assert (refused.value.code, refused.value.field) == ("tensor_size", "x")


# --- anything at all

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=6), children, max_size=4),
    max_leaves=12,
)
sizes = st.lists(st.integers(-2, 5) | st.just(2**31) | st.booleans() | st.none(), max_size=10)
entries = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "y", ""]) | json_values,
        "datatype": st.sampled_from(list(DTYPES)) | json_values,
        "shape": sizes | json_values,
        "data": st.lists(json_values, max_size=6) | json_values,
        "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 40) | json_values) | json_values,
    },
)
requests = st.fixed_dictionaries(
    {"inputs": st.lists(entries, max_size=3) | json_values},
    optional={"id": json_values, "outputs": json_values, "parameters": json_values},
)


def refused_or_read(read: Any) -> None:
    """Whatever comes, the reader either reads it or refuses it with a documented code."""
    try:
        read()
    except ApiError as refused:
        assert refused.code in CODES
        assert refused.status.http < 500


@settings(max_examples=400, deadline=None)
@given(document=requests, raw=st.binary(max_size=64), length=st.none() | st.integers(-1, 400) | st.binary(max_size=4))
def test_no_json_document_fails_the_reader_unsaid(document: Any, raw: bytes, length: Any) -> None:
    text = json.dumps(document).encode()
    header = length if isinstance(length, bytes) else str(len(text) if length is None else length).encode()
    refused_or_read(lambda: decode_request(text + raw, header))


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=200), length=st.none() | st.binary(max_size=6))
def test_no_bytes_fail_the_reader_unsaid(raw: bytes, length: bytes | None) -> None:
    refused_or_read(lambda: decode_request(raw, length))


@settings(max_examples=300, deadline=None)
@given(
    inputs=st.lists(
        st.tuples(
            st.sampled_from(["x", "y", ""]),
            st.sampled_from([*DTYPES, "", "BF16"]),
            st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4), max_size=9),
        ),
        max_size=3,
    ),
    raw=st.lists(st.binary(max_size=64), max_size=3),
    numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6),
)
def test_no_grpc_message_fails_the_reader_unsaid(inputs: Any, raw: list[bytes], numbers: list[int]) -> None:
    message = ModelInferRequest(model_name="m", raw_input_contents=raw)
    for name, datatype, shape in inputs:
        entry = message.inputs.add(name=name, datatype=datatype, shape=shape)
        entry.contents.int_contents.extend(numbers)
        entry.contents.fp32_contents.extend(map(float, numbers))
    refused_or_read(lambda: decode_tensors(message))


@settings(max_examples=200, deadline=None)
@given(
    raw=st.binary(max_size=64), shape=st.lists(st.integers(0, 5), max_size=3), datatype=st.sampled_from(list(DTYPES))
)
def test_raw_bytes_are_a_tensor_of_the_shape_or_refused(raw: bytes, shape: list[int], datatype: str) -> None:
    try:
        array = from_raw_bytes(raw, datatype, shape, "x")
    except ApiError as refused:
        assert refused.code == "tensor_size"
    else:
        assert list(array.shape) == shape
        assert to_raw_bytes(array) == raw or datatype == "BOOL"  # any non-zero byte is true
