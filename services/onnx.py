"""Any ONNX graph, as it is: tensors in, tensors out, nothing before or after the graph.

Start it alone with `pressroom serve onnx` or `bentoml serve services.onnx:Onnx`. Tensors travel by the Open Inference
Protocol; `/v1/tensors` takes and gives them as nested lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from export.artifact import Artifact
from services.core.answer import Explained
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, Task, TensorModel, batch_policy, runtime_options
from services.core.oip.inference import check_names, check_tensors
from services.core.oip.json_data import from_nested
from services.core.runtime import OnnxRuntime
from services.core.settings import Settings
from services.core.tensors import Tensors, is_finite


class TensorsRequest(BaseModel):
    """Run an ONNX graph on tensors given as nested lists."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one graph is served")
    version: str | None = Field(None, description="served version; default: the newest")
    inputs: dict[str, list[Any]] = Field(description="input -> its rows as nested lists; as many rows of each")


class TensorsResponse(Explained):
    """What the graph gave, and which artifact it was."""

    outputs: dict[str, list[Any]] = Field(description="output -> its rows as nested lists")


class OnnxModel(TensorModel):
    """One served graph."""

    def __init__(self, artifact: Artifact, settings: Settings) -> None:
        graph = artifact.file(artifact.manifest.runtime.file)
        super().__init__(artifact, OnnxRuntime(graph, runtime_options(settings)), batch_policy(settings))
        self._max_rows = settings.max_request_rows

    def complete(self, tensors: Tensors, outputs: Tensors, call: Call) -> tuple[Tensors, Json]:
        for name, tensor in outputs.items():
            if tensor.dtype.kind == "f" and not is_finite(tensor):
                raise ApiError(
                    "inference_failed", f"output {name!r} is not finite", hint="check the inputs for extreme values"
                )
        return outputs, {}

    async def answer(self, request: Json, call: Call) -> Json:
        tensors = self._read(request)
        check_tensors(tensors, self.inputs, self._max_rows)
        outputs, _ = await self.infer(tensors, call)
        return {"outputs": {name: tensor.tolist() for name, tensor in outputs.items()}}

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        flat = [np.asarray(values, dtype=np.float64).ravel() for values in answer["outputs"].values()]
        return np.concatenate(flat)

    def _read(self, request: Json) -> Tensors:
        """The request's tensors. Raises ApiError naming the input."""
        if unknown := sorted(request.keys() - TensorsRequest.model_fields.keys()):
            raise ApiError("invalid_request", f"there is no field {unknown[0][:60]!r}", field=unknown[0])
        sent = request.get("inputs")
        if not isinstance(sent, dict) or not sent:
            raise ApiError("invalid_request", "inputs must be an object: name -> nested lists", field="inputs")
        datatypes = {spec.name: spec.dtype for spec in self.inputs}
        check_names(sent, datatypes)
        return {name: from_nested(sent[name], datatype, name) for name, datatype in datatypes.items() if name in sent}


class OnnxFamily:
    """Loads graphs."""

    name: ClassVar[str] = "onnx"
    tasks: ClassVar[Sequence[Task]] = (
        Task(
            route="/v1/tensors",
            request=TensorsRequest,
            response=TensorsResponse,
            example={"model": "mlp", "inputs": {"x": [[0.5, -1.0, 2.0]]}},
        ),
    )

    def load(self, artifact: Artifact, settings: Settings) -> OnnxModel:
        return OnnxModel(artifact, settings)


@pressroom_service(OnnxFamily())
class Onnx(ServiceBase):
    """Answers from verified artifacts of ONNX graphs."""
