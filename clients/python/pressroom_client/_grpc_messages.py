"""gRPC message classes, made at run time from the descriptors in `open_inference.binpb`.

They live in a descriptor pool of their own: generated modules register in the process-wide one, where a second
package with the same message names (tritonclient's) would collide. Works with protobuf 5, 6 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ._errors import UsageError

SERVICE = "inference.GRPCInferenceService"


@dataclass(frozen=True)
class Method:
    """One unary call of the service."""

    path: str
    request: type[Any]
    response: type[Any]


@cache
def methods() -> dict[str, Method]:
    """The service's unary calls by name; UsageError if protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        hint = 'pip install "pressroom-client[grpc]", or use an http:// address'
        raise UsageError("gRPC needs grpcio and protobuf, which are not installed", hint=hint) from error
    pool = descriptor_pool.DescriptorPool()
    content = (files(__package__) / "open_inference.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        pool.AddSerializedFile(file.SerializeToString())
    message = message_factory.GetMessageClass
    return {
        method.name: Method(f"/{SERVICE}/{method.name}", message(method.input_type), message(method.output_type))
        for method in pool.FindServiceByName(SERVICE).methods
        if not method.server_streaming
    }


def set_parameters(target: Any, parameters: Mapping[str, Any]) -> None:
    """Scalars into a map of InferParameter; UsageError for anything that is no scalar."""
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int):
            setattr(target[name], "int64_param" if value < 2**63 else "uint64_param", value)
        elif isinstance(value, float):
            target[name].double_param = value
        elif isinstance(value, str):
            target[name].string_param = value
        else:
            message = f"got {type(value).__name__}, expected bool, int, float or str"
            raise UsageError(message, field=f"parameters.{name}")


def get_parameters(source: Mapping[str, Any]) -> dict[str, Any]:
    """A map of InferParameter as plain scalars; one that holds nothing is None."""
    values = {name: (value, value.WhichOneof("parameter_choice")) for name, value in source.items()}
    return {name: getattr(value, choice) if choice else None for name, (value, choice) in values.items()}
