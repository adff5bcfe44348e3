"""The tensor codec, datatype by datatype, against tritonclient's and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pressroom_client import Tensor, UnexpectedAnswer, UsageError
from pressroom_client._exchange import InferCall, Target
from pressroom_client._oip_http import infer_body, infer_result
from pressroom_client._tensors import DTYPES, RawTensor, decode, encode, from_elements

PLAIN = [name for name in DTYPES if name != "BF16"]


@pytest.mark.parametrize("datatype", PLAIN)
def test_a_datatype_there_and_back(datatype: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(DTYPES[datatype])
    raw = encode("x", array)
    assert (raw.datatype, raw.shape, raw.content) == (datatype, (2, 3), array.tobytes())
    np.testing.assert_array_equal(decode(raw), array, strict=True)


@pytest.mark.parametrize("datatype", PLAIN)
def test_datatypes_are_named_as_tritonclient_names_them(datatype: str) -> None:
    utils = pytest.importorskip("tritonclient.utils")
    assert utils.np_to_triton_dtype(DTYPES[datatype]) == datatype


def test_other_memory_orders_are_sent_row_major_and_little_endian() -> None:
    array = np.arange(6, dtype=">f4").reshape(2, 3)
    assert encode("x", array) == encode("x", array.astype("<f4"))
    assert encode("x", np.asfortranarray(array)).content == array.astype("<f4").tobytes()


def test_bytes_are_framed_as_tritonclient_frames_them() -> None:
    utils = pytest.importorskip("tritonclient.utils")
    array = np.array([[b"", b"\x00\xff"], ["größe", b"x" * 300]], dtype=object)
    raw = encode("x", array)
    assert (raw.datatype, raw.shape) == ("BYTES", (2, 2))
    assert raw.content == utils.serialize_byte_tensor(array).item()
    assert decode(raw).tolist() == [[b"", b"\x00\xff"], ["größe".encode(), b"x" * 300]]


@pytest.mark.parametrize("array", [np.array(["ab", "c"]), np.array([b"ab", b"c"])])
def test_arrays_of_text_travel_as_bytes(array: np.ndarray) -> None:
    assert decode(encode("x", array)).tolist() == [b"ab", b"c"]


def test_bfloat16_rounds_to_nearest_even_and_keeps_what_is_not_finite() -> None:
    values = np.array([1.0, -2.5, 1.00390625, 1.01171875, np.inf, np.nan, 0.1], np.float32)
    raw = encode("x", Tensor(values, "BF16"))
    expected = np.array([1.0, -2.5, 1.0, 1.015625, np.inf, np.nan, 0.10009765625], np.float32)
    np.testing.assert_array_equal(decode(raw), expected, strict=True)
    assert len(raw.content) == 14


def test_a_datatype_said_aloud_converts() -> None:
    raw = encode("x", Tensor(np.array([1, 2]), "FP16"))
    np.testing.assert_array_equal(decode(raw), np.array([1, 2], np.float16), strict=True)


def test_tensors_without_elements_and_without_axes() -> None:
    for array in (np.zeros((0, 3), np.float32), np.array(2.5), np.empty((0,), object)):
        np.testing.assert_array_equal(decode(encode("x", array)), array, strict=True)


def test_decoded_arrays_may_be_written_to() -> None:
    array = decode(encode("x", np.zeros(2, np.float32)))
    array[0] = 1.0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.array([1j]), "no datatype fits dtype complex128"),
        (np.array(["2024"], "datetime64[D]"), "no datatype fits"),
        (np.array([1, "a"], dtype=object), "got int in a BYTES tensor"),
        (Tensor(np.zeros(1), "FP8"), "got datatype 'FP8', expected one of BOOL"),
    ],
)
def test_what_cannot_travel_is_refused_by_name(value, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        encode("x", value)
    assert caught.value.field == "x"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (RawTensor("x", "FP32", (2,), b"1234"), r"has 4 bytes, FP32 \[2\] needs 8"),
        (RawTensor("x", "BYTES", (1,), b"\x09\x00\x00\x00ab"), "ends in the middle"),
        (RawTensor("x", "BYTES", (2,), b"\x01\x00\x00\x00a"), "has 1 elements"),
        (RawTensor("x", "FP8", (1,), b"1"), "unknown datatype 'FP8'"),
    ],
)
def test_an_output_that_does_not_fill_its_shape_is_refused(raw: RawTensor, reason: str) -> None:
    with pytest.raises(UnexpectedAnswer, match=reason):
        decode(raw)


@pytest.mark.parametrize("datatype", PLAIN)
def test_elements_one_by_one_become_the_same_array(datatype: str) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(DTYPES[datatype])
    np.testing.assert_array_equal(from_elements("x", datatype, (2, 2), array.ravel().tolist()), array, strict=True)


def test_elements_that_do_not_fill_the_shape_are_refused() -> None:
    with pytest.raises(UnexpectedAnswer, match=r"does not fill FP32 \[3\]"):
        from_elements("x", "FP32", (3,), [1.0])
    with pytest.raises(UnexpectedAnswer, match=r"does not fill UINT8 \[1\]"):
        from_elements("x", "UINT8", (1,), [300])


def test_the_http_body_is_a_header_and_then_the_tensors() -> None:
    inputs = {"a": np.array([1.0], np.float32), "b": np.array([b"z"], object)}
    headers, body = infer_body(InferCall(target=Target("m"), inputs=inputs, outputs=("o",), parameters={"k": 1}))
    length = int(headers["Inference-Header-Content-Length"])
    assert json.loads(body[:length]) == {
        "inputs": [
            {"name": "a", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}},
            {"name": "b", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}},
        ],
        "parameters": {"k": 1},
        "outputs": [{"name": "o", "parameters": {"binary_data": True}}],
    }
    assert body[length:] == np.float32(1.0).tobytes() + b"\x01\x00\x00\x00z"


def test_a_plain_json_answer_is_read_too() -> None:
    outputs = [
        {"name": "nested", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3, 4]]},
        {"name": "flat", "datatype": "INT64", "shape": [2], "data": [5, 6]},
        {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["größe"]},
        {"name": "half", "datatype": "BF16", "shape": [1], "data": [0.5]},
    ]
    body = json.dumps({"model_name": "m", "outputs": outputs}).encode()
    result = infer_result({}, body, "id")
    np.testing.assert_array_equal(result.outputs["nested"], np.array([[1, 2], [3, 4]], np.float32), strict=True)
    np.testing.assert_array_equal(result.outputs["flat"], np.array([5, 6]), strict=True)
    assert result.outputs["text"].tolist() == ["größe".encode()]
    assert (result.outputs["half"][0], result.version, result.request_id) == (0.5, None, "id")


def test_a_binary_and_a_json_output_may_come_together() -> None:
    outputs = [
        {"name": "raw", "datatype": "INT8", "shape": [2], "parameters": {"binary_data_size": 2}},
        {"name": "json", "datatype": "INT8", "shape": [1], "data": [7]},
    ]
    header = json.dumps({"model_name": "m", "outputs": outputs}).encode()
    result = infer_result({"Inference-Header-Content-Length": str(len(header))}, header + b"\x01\x02", "id")
    assert {name: array.tolist() for name, array in result.outputs.items()} == {"raw": [1, 2], "json": [7]}
