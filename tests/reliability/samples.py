"""Good and bad requests with the answer each must get, in three protocols: JSON, raw tensors over REST, gRPC.

Good ones ask for the windows whose forecasts the papers' own programs computed; bad ones name their error code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import etth1
import numpy as np
import orjson
from asking import INFER, binary_body, tensor_message

TOLERANCE = 2e-4  # in training standard deviations; the certificate's is 1e-4, float32 and batch mates add rounding
SHAPE = (1, etth1.HORIZON, len(etth1.COLUMNS))
LENGTH = "inference-header-content-length"

Read = Callable[[Any, Mapping[str, str]], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One request. code: "ok" or the error it must get; message: set for gRPC, else path, body and headers."""

    name: str
    protocol: str
    code: str = "ok"
    path: str = ""
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    message: Any = None
    read: Read | None = None
    architecture: str = ""
    scaled: np.ndarray | None = None

    def is_right(self, answer: np.ndarray) -> bool:
        """Whether a forecast [H, 7] in raw units is the official program's."""
        mean, std = etth1.scaler(self.architecture)
        return bool(np.abs((answer.reshape(SHAPE[1:]) - mean) / std - self.scaled).max() < TOLERANCE)


def good_samples() -> list[Sample]:
    """Five official windows of both models in three protocols."""
    found = []
    for architecture, model in etth1.MODELS.items():
        official = etth1.official(architecture)
        plain = official.scaled if official.unmarked is None else official.unmarked
        for i, first in enumerate(official.first):
            make = partial(Sample, architecture=architecture)
            request = etth1.request(etth1.series(first), model=model)
            found.append(_json(make, "native", request, scaled=official.scaled[i]))
            found.append(_binary(make, "binary", model, etth1.history(first), scaled=plain[i]))
            message = tensor_message(model, "history", etth1.history(first))
            found.append(
                make(name="grpc", protocol="grpc", message=message, read=_read_message, scaled=plain[i])
            )  # fmt: skip
    return found


def bad_samples() -> list[Sample]:
    """Mistakes callers make, in three protocols."""
    wrong = {name: values for name, values in etth1.series()["values"].items() if name != "OT"}
    card = etth1.CARD
    short = etth1.series(length=95)
    native: dict[str, dict[str, Any]] = {
        "history_too_short": etth1.request(short, model=card),
        "columns_missing": etth1.request(etth1.series(values=wrong), model=card),
        "timestamps_unsorted": etth1.request(etth1.series(timestamps=etth1.stamps()[::-1]), model=card),
        "model_not_found": etth1.request(model="nothing"),
        "version_not_found": etth1.request(model=f"{card}:77"),
        "horizon_too_long": etth1.request(model=card, horizon=97),
        "invalid_request": etth1.request(model=card, colour="red"),
    }
    found = [_json(Sample, f"native {code}", request, code=code) for code, request in native.items()]
    whole = json.dumps(etth1.request(model=card))
    nan = whole.replace(str(etth1.values()[5, 0]), "NaN", 1)
    found += [_text("native broken", whole[:-9], "invalid_json"), _text("native NaN", nan, "value_not_finite")]
    return found + _bad_binary(card) + _bad_messages(card)


def _bad_binary(card: str) -> list[Sample]:
    spoiled = etth1.history().copy()
    spoiled[0, 3, 3] = np.inf
    tensors = {
        "history_too_short": etth1.history(length=95),
        "tensor_shape": np.zeros((1, 96, 8), np.float32),
        "empty_batch": np.zeros((0, 96, 7), np.float32),
        "value_not_finite": spoiled,
    }
    found = [_binary(Sample, f"binary {code}", card, array, code=code) for code, array in tensors.items()]
    body, headers = binary_body(etth1.history())
    cut = Sample(
        name="binary cut", protocol="http", code="tensor_size", path=INFER.format(card), body=body[:-8], headers=headers
    )
    return [*found, cut]


def _bad_messages(card: str) -> list[Sample]:
    cut = tensor_message(card, "history", etth1.history())
    cut.raw_input_contents[0] = cut.raw_input_contents[0][:-8]
    unknown = tensor_message(card, "history", etth1.history())
    unknown.outputs.add(name="attention")
    messages = {
        "tensor_size": cut,
        "output_unknown": unknown,
        "tensor_missing": tensor_message(card, "timestamps", etth1.clock(), "INT64"),
        "tensor_dtype": tensor_message(card, "history", etth1.history().astype(np.float64), "FP64"),
        "model_not_found": tensor_message("nothing", "history", etth1.history()),
    }
    return [Sample(name=f"grpc {c}", protocol="grpc", code=c, message=m) for c, m in messages.items()]


def _json(make: Callable[..., Sample], name: str, request: Any, **fields: Any) -> Sample:
    headers = {"Content-Type": "application/json"}
    body = orjson.dumps(request)
    return make(
        name=name, protocol="http", path=etth1.FORECAST, body=body, headers=headers, read=_read_json, **fields
    )  # fmt: skip


def _text(name: str, text: str, code: str) -> Sample:
    headers = {"Content-Type": "application/json"}
    return Sample(name=name, protocol="http", code=code, path=etth1.FORECAST, body=text.encode(), headers=headers)


def _binary(make: Callable[..., Sample], name: str, model: str, array: np.ndarray, **fields: Any) -> Sample:
    body, headers = binary_body(array)
    return make(
        name=name, protocol="http", path=INFER.format(model), body=body, headers=headers, read=_read_binary, **fields
    )  # fmt: skip


def _read_json(body: bytes, headers: Mapping[str, str]) -> np.ndarray:
    return etth1.forecast_of(orjson.loads(body)["series"][0])


def _read_binary(body: bytes, headers: Mapping[str, str]) -> np.ndarray:
    return np.frombuffer(body[int(headers[LENGTH]) :], dtype=np.float32)


def _read_message(answer: Any, headers: Mapping[str, str]) -> np.ndarray:
    return np.frombuffer(answer.raw_output_contents[0], dtype=np.float32)
