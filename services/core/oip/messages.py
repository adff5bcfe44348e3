"""Message classes of the protocol, made at run time from its serialized descriptors.

They live in a private pool, so that another copy of the protocol (tritonclient's) may live in the same process, and so
that any protobuf from 5 to 7 will do. The health service is added for reflection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2

SERVICE = "inference.GRPCInferenceService"
_DESCRIPTORS = Path(__file__).parent.parent / "proto" / "open_inference.binpb"


def _load_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTORS.read_bytes())
    for file in files.file:
        pool.Add(file)
    health = descriptor_pb2.FileDescriptorProto()
    health_pb2.DESCRIPTOR.CopyToProto(health)
    pool.Add(health)
    return pool


POOL = _load_pool()


def message_class(name: str) -> Any:
    """The class of a message of package `inference`, e.g. `ModelInferRequest`."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"inference.{name}"))


ModelInferRequest = message_class("ModelInferRequest")
ModelInferResponse = message_class("ModelInferResponse")
ModelStreamInferResponse = message_class("ModelStreamInferResponse")
