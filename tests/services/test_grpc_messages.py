"""Kinds of ModelInfer messages: what is recalled says what protobuf says; what cannot be told apart is not kept."""

from __future__ import annotations

import numpy as np
import pytest

from services.core.oip.grpc_codec import decode_tensors
from services.core.oip.grpc_direct import Messages
from services.core.oip.grpc_wire import block
from services.core.oip.messages import ModelInferRequest
from services.core.tensors import DTYPES, Tensors


def message(tensors: dict[str, tuple[str, np.ndarray]], **fields: str) -> bytes:
    request = ModelInferRequest(model_name="m", **fields)
    for name, (datatype, tensor) in tensors.items():
        request.inputs.add(name=name, datatype=datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.tobytes())
    return bytes(request.SerializeToString())


def forecast(seed: int, rows: int = 2) -> dict[str, tuple[str, np.ndarray]]:
    """Two tensors of different types and sizes."""
    rng = np.random.default_rng(seed)
    history = rng.standard_normal((rows, 5, 7)).astype(np.float32)
    return {"history": ("FP32", history), "timestamps": ("INT64", rng.integers(0, 99, (rows, 5)))}


def kept(messages: Messages, raw: bytes) -> None:
    sent = ModelInferRequest.FromString(raw)
    messages.keep(raw, sent, decode_tensors(sent))


def by_protobuf(raw: bytes) -> Tensors:
    return decode_tensors(ModelInferRequest.FromString(raw))


def test_a_message_alike_is_read_as_protobuf_reads_it() -> None:
    messages = Messages()
    kept(messages, message(forecast(1), model_version="3", id="i"))
    raw = message(forecast(2), model_version="3", id="i")
    found = messages.recall(raw)
    assert found is not None
    assert (found.form.name, found.form.version) == ("m", "3")
    request = found.form.layout.read(raw)
    assert (request.id, request.outputs) == ("i", None)
    expected = by_protobuf(raw)
    assert request.tensors.keys() == expected.keys()
    for name, tensor in request.tensors.items():
        assert tensor.dtype == expected[name].dtype
        np.testing.assert_array_equal(tensor, expected[name])


@pytest.mark.parametrize(
    "other",
    [
        message(forecast(2), id="j"),
        message(forecast(2, rows=3)),
        message(forecast(2)) + block(3, b"i"),
        message(dict(reversed(forecast(2).items()))),
    ],
    ids=["another id", "other rows", "an id behind the tensors", "another order"],
)
def test_any_other_message_is_not_recalled(other: bytes) -> None:
    messages = Messages()
    kept(messages, message(forecast(1)))
    assert messages.recall(message(forecast(2))) is not None
    assert messages.recall(other) is None


def test_a_second_tensor_of_another_size_is_no_message_alike() -> None:
    messages = Messages()
    one = {"a": ("UINT8", np.zeros(8, np.uint8)), "b": ("UINT8", np.zeros(4, np.uint8))}
    kept(messages, message(one))
    raw = message(one)
    shifted = raw[:-5] + bytes((3,)) + raw[-4:]  # its length says 3, and a byte is left over
    assert messages.recall(shifted) is None


def test_what_protobuf_would_read_otherwise_is_not_kept() -> None:
    """Its tensor stands in the middle; what looks like it at the end lies inside a field nobody knows."""
    content = np.arange(3, dtype=np.float32).tobytes()
    field = block(7, content)
    plain = message({"x": ("FP32", np.arange(3, dtype=np.float32))})
    assert plain.endswith(field)
    messages = Messages()
    kept(messages, plain + block(15, field))
    assert messages.recall(plain + block(15, field)) is None


@pytest.mark.parametrize("datatype", ["BYTES", "empty"])
def test_tensors_without_a_fixed_size_are_not_kept(datatype: str) -> None:
    request = ModelInferRequest(model_name="m")
    request.inputs.add(
        name="x", datatype="BYTES" if datatype == "BYTES" else "FP32", shape=[1 if datatype == "BYTES" else 0]
    )
    request.raw_input_contents.append(b"\x02\0\0\0ab" if datatype == "BYTES" else b"")
    raw = bytes(request.SerializeToString())
    messages = Messages()
    kept(messages, raw)
    assert messages.recall(raw) is None


def test_memory_of_kinds_is_bounded() -> None:
    messages = Messages()
    for size in range(1, 600):
        kept(messages, message({"x": ("UINT8", np.zeros(size, DTYPES["UINT8"]))}))
    assert sum(map(len, messages._known.values())) <= 256
