"""The shared protocol file: equal to what the public client carries, compiled from its source, copied whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "services/core/proto/open_inference.proto"
COMPILED = SOURCE.with_suffix(".binpb")
COPY = ROOT / "clients/python/pressroom_client/open_inference.binpb"


@pytest.fixture(scope="module")
def ours() -> descriptor_pb2.FileDescriptorProto:
    files = descriptor_pb2.FileDescriptorSet.FromString(COMPILED.read_bytes())
    assert len(files.file) == 1
    return files.file[0]


@pytest.fixture(scope="module")
def pool(ours: descriptor_pb2.FileDescriptorProto) -> descriptor_pool.DescriptorPool:
    private = descriptor_pool.DescriptorPool()
    private.Add(ours)
    return private


@pytest.fixture(scope="module")
def theirs() -> descriptor_pool.DescriptorPool:
    service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")
    return service_pb2.DESCRIPTOR.pool


def message_names(file: descriptor_pb2.FileDescriptorProto) -> list[str]:
    def below(message: descriptor_pb2.DescriptorProto, prefix: str) -> list[str]:
        name = f"{prefix}.{message.name}"
        return [name, *(inner for nested in message.nested_type for inner in below(nested, name))]

    return [name for message in file.message_type for name in below(message, file.package)]


def layout(message: Descriptor) -> dict[str, tuple[object, ...]]:
    def of(field: object) -> tuple[object, ...]:
        target = field.message_type or field.enum_type
        return (field.number, field.type, field.is_repeated, target and target.full_name)

    return {field.name: of(field) for field in message.fields}


def test_the_clients_copy_is_byte_identical_to_the_servers() -> None:
    assert COPY.read_bytes() == COMPILED.read_bytes()


def test_the_compiled_file_comes_from_the_source(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    target = tmp_path / "open_inference.binpb"
    command = ["-I", str(SOURCE.parent), f"--descriptor_set_out={target}", SOURCE.name]
    subprocess.run([sys.executable, "-W", "ignore", "-m", "grpc_tools.protoc", *command], check=True)
    assert target.read_bytes() == COMPILED.read_bytes()


def test_every_field_has_the_public_protocols_name_number_and_type(ours, pool, theirs) -> None:
    for name in message_names(ours):
        reference = layout(theirs.FindMessageTypeByName(name))
        own = layout(pool.FindMessageTypeByName(name))
        assert own.items() <= reference.items(), name


def test_messages_outside_the_model_configuration_are_complete(ours, pool, theirs) -> None:
    subsets = {
        "inference.ModelConfig",
        "inference.ModelInput",
        "inference.ModelOutput",
        "inference.ModelDynamicBatching",
    }
    for name in set(message_names(ours)) - subsets:
        assert layout(pool.FindMessageTypeByName(name)) == layout(theirs.FindMessageTypeByName(name)), name


def test_every_enum_value_has_the_public_protocols_number(pool, theirs) -> None:
    for name in ("inference.DataType", "inference.ModelInput.Format"):
        own, reference = pool.FindEnumTypeByName(name), theirs.FindEnumTypeByName(name)
        assert {v.name: v.number for v in own.values} == {v.name: v.number for v in reference.values}


def test_every_call_has_the_public_protocols_messages_and_streaming(pool, theirs) -> None:
    name = "inference.GRPCInferenceService"

    def calls(service: object) -> dict[str, tuple[object, ...]]:
        return {
            m.name: (m.input_type.full_name, m.output_type.full_name, m.client_streaming, m.server_streaming)
            for m in service.methods
        }

    own = calls(pool.FindServiceByName(name))
    assert own.items() <= calls(theirs.FindServiceByName(name)).items()
    assert {
        "ServerLive",
        "ServerReady",
        "ModelReady",
        "ModelInfer",
        "ModelStreamInfer",
        "RepositoryIndex",
    } <= own.keys()
