"""A service whose model does what a test tells it: `bentoml serve tiny_family:Tiny` in this folder.

    x FP32 [B, 1]  ->  y = factor * x;  raises for any row that is 13

Every forward pass first adds a line to `runs-NAME` in TINY_FOLDER (its rows, as JSON), then waits while a file
`hold-NAME` exists there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from export.artifact import Artifact
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, Task, TensorModel, batch_policy
from services.core.settings import Settings
from services.core.tensors import Tensors

FOLDER = Path(os.environ["TINY_FOLDER"])
UNLUCKY = 13.0
HOLDING_SECONDS = 60.0


class TinyRequest(BaseModel):
    """POST /v1/tiny."""

    model: str
    x: list[float]


class TinyResponse(BaseModel):
    """Its answer, besides the explanation."""

    y: list[float]


class TinyRuntime:
    """The arithmetic, with a pace the test sets."""

    def __init__(self, name: str, factor: float) -> None:
        self._runs, self._hold = FOLDER / f"runs-{name}", FOLDER / f"hold-{name}"
        self._factor = factor

    def run(self, tensors: Tensors) -> Tensors:
        x = tensors["x"]
        with self._runs.open("a") as file:
            file.write(json.dumps(x.ravel().tolist()) + "\n")
        until = time.monotonic() + HOLDING_SECONDS
        while self._hold.exists() and time.monotonic() < until:
            time.sleep(0.002)
        if (x == UNLUCKY).any():
            raise ArithmeticError("unlucky")
        return {"y": self._factor * x}


class TinyModel(TensorModel):
    """Raw data are the tensors themselves."""

    async def answer(self, request: Json, call: Call) -> Json:
        x = request.get("x")
        if not isinstance(x, list):
            raise ApiError("invalid_request", "x must be a list", field="x")
        (output,) = await self.batcher.submit([{"x": np.array(x, dtype=np.float32)[:, None]}], call)
        return {"y": output["y"].ravel().tolist()}

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        return np.array(answer["y"], dtype=np.float64)


class TinyFamily:
    """Loads tiny models."""

    name: ClassVar[str] = "tiny"
    tasks: ClassVar[Sequence[Task]] = (
        Task(route="/v1/tiny", request=TinyRequest, response=TinyResponse, example={"model": "tiny-a", "x": [1.0]}),
    )

    def load(self, artifact: Artifact, settings: Settings) -> TinyModel:
        made: dict[str, Any] = artifact.manifest.settings
        return TinyModel(artifact, TinyRuntime(artifact.manifest.name, made["factor"]), batch_policy(settings))


@pressroom_service(TinyFamily())
class Tiny(ServiceBase):
    """Tiny models behind one address."""
