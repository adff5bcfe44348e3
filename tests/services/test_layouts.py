"""Headers that are read once: the second request with a header gets its own tensors, and nothing slips through."""

from __future__ import annotations

import json

import numpy as np
import pytest

from services.core.errors import ApiError
from services.core.oip.codec import decode_request
from services.core.oip.layout import HEADER_BYTES, HEADERS


def request(values: list[float], shape: list[int] | None = None, **more: object) -> tuple[bytes, bytes]:
    """A body with one raw input, and its header length."""
    raw = np.array(values, dtype=np.float32).tobytes()
    size = {"binary_data_size": len(raw)}
    entry = {"name": "x", "datatype": "FP32", "shape": shape or [1, len(values)], "parameters": size}
    header = json.dumps({"inputs": [entry], **more}).encode()
    return header + raw, str(len(header)).encode()


def test_requests_of_one_header_keep_their_own_numbers() -> None:
    first = decode_request(*request([1.0, 2.0], id="7", parameters={"binary_data_output": True}))
    second = decode_request(*request([3.0, 4.0], id="7", parameters={"binary_data_output": True}))
    np.testing.assert_array_equal(first.tensors["x"], [[1.0, 2.0]])
    np.testing.assert_array_equal(second.tensors["x"], [[3.0, 4.0]])
    assert (second.id, second.binary, second.outputs) == (first.id, True, None)
    assert second.tensors["x"].dtype == np.float32


def test_a_known_header_in_front_of_another_number_of_bytes_is_refused() -> None:
    body, length = request([5.0, 6.0])
    decode_request(body, length)
    for wrong in (body[:-1], body + b"x"):
        with pytest.raises(ApiError) as refused:
            decode_request(wrong, length)
        assert refused.value.code == "tensor_size"
    np.testing.assert_array_equal(decode_request(body, length).tensors["x"], [[5.0, 6.0]])


def test_a_refused_header_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            decode_request(*request([1.0, 2.0], shape=[1, 3]))
        assert refused.value.code == "tensor_size"


def test_more_headers_than_are_kept_and_longer_ones_are_read_all_the_same() -> None:
    for number in range(2 * HEADERS):
        assert decode_request(*request([float(number)], id=str(number))).id == str(number)
    for _ in range(2):
        assert decode_request(*request([1.0], id="i" * HEADER_BYTES)).tensors["x"].item() == 1.0
