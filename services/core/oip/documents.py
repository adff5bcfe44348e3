"""The protocol's documents about the server and its models, shared by REST and gRPC."""

from __future__ import annotations

from typing import Any

from export.artifact import TensorSpec
from services.core.model import ServedModel
from services.core.repository import Repository

SERVER_NAME = "pressroom"
EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository"]


def wire_shape(spec: TensorSpec) -> list[int]:
    """A spec's shape with -1 for every dynamic axis."""
    return [n if isinstance(n, int) else -1 for n in spec.shape]


def model_metadata(model: ServedModel, versions: list[str]) -> dict[str, Any]:
    """The protocol's metadata document of a model."""
    return {
        "name": model.name,
        "versions": versions,
        "platform": f"pressroom_{model.artifact.manifest.runtime.kind}",
        "inputs": [_tensor_metadata(s) for s in model.inputs],
        "outputs": [_tensor_metadata(s) for s in model.outputs],
    }


def _tensor_metadata(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.dtype, "shape": wire_shape(spec)}


def model_config(model: ServedModel) -> dict[str, Any]:
    """The configuration document Triton's clients ask for; its shapes leave the batch axis out."""
    policy = model.policy
    config = {
        "name": model.name,
        "platform": f"pressroom_{model.artifact.manifest.runtime.kind}",
        "backend": "pressroom",
        "max_batch_size": 0 if policy is None else policy.max_rows,
        "input": [{**_tensor_config(s), "optional": s.optional} for s in model.inputs],
        "output": [_tensor_config(s) for s in model.outputs],
    }
    if policy is not None:
        config["dynamic_batching"] = {"max_queue_delay_microseconds": int(policy.max_delay_ms * 1000)}
    return config


def _tensor_config(spec: TensorSpec) -> dict[str, Any]:
    datatype = {"BYTES": "TYPE_STRING"}.get(spec.dtype, f"TYPE_{spec.dtype}")
    return {"name": spec.name, "data_type": datatype, "dims": wire_shape(spec)[1:]}


def repository_index(repository: Repository) -> list[dict[str, str]]:
    """What is served and what was refused, with the reason."""
    ready = [{"name": m.name, "version": m.version, "state": "READY", "reason": ""} for m in repository.models()]
    refused = [
        {"name": tag.partition(":")[0], "version": tag.partition(":")[2], "state": "UNAVAILABLE", "reason": reason}
        for tag, reason in repository.refused.items()
    ]
    return ready + refused
