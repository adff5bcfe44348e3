"""What Triton's python backend runs: one instance, the requests Triton joined by dynamic batching."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as backend
from session import Model


class TritonPythonModel:
    """Joins the tensors of the requests it is given, and cuts the answers apart again."""

    def initialize(self, args: dict[str, str]) -> None:
        self._model = Model()

    def execute(self, requests: list[Any]) -> list[Any]:
        tensors = {slot.name: _joined(requests, slot.name) for slot in self._model.inputs}
        answers = self._model.run(tensors)
        first, responses = 0, []
        sizes = [backend.get_input_tensor_by_name(one, self._model.inputs[0].name).shape()[0] for one in requests]
        for size in sizes:
            part = slice(first, first + size)
            outputs = [
                backend.Tensor(slot.name, answer[part])
                for slot, answer in zip(self._model.outputs, answers, strict=True)
            ]
            responses.append(backend.InferenceResponse(output_tensors=outputs))
            first += size
        return responses


def _joined(requests: list[Any], name: str) -> np.ndarray:
    parts = [backend.get_input_tensor_by_name(one, name).as_numpy() for one in requests]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
