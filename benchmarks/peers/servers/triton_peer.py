"""Triton's server from the nvidia-pytriton wheel with its python backend: Open Inference Protocol, REST and gRPC.

Writes a model repository, puts the binary beside the stub for this Python, and becomes the server. PEER_GRPC_PORT is
where gRPC listens.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from session import HOST, description, port

HERE = Path(__file__).parent
_KINDS = {"float32": "TYPE_FP32", "int64": "TYPE_INT64"}


def configuration(told: dict[str, Any]) -> str:
    """The model's config.pbtxt: one instance, dynamic batching."""
    delay = round(told["max_delay_ms"] * 1000)
    return f"""name: "{told["name"]}"
backend: "python"
max_batch_size: {told["max_batch_rows"]}
input [{", ".join(map(_tensor, told["inputs"]))}]
output [{", ".join(map(_tensor, told["outputs"]))}]
instance_group [{{ count: 1 kind: KIND_CPU }}]
dynamic_batching {{ max_queue_delay_microseconds: {delay} }}
"""


def _tensor(one: dict[str, Any]) -> str:
    return f'{{ name: "{one["name"]}" data_type: {_KINDS[one["dtype"]]} dims: {one["shape"]} }}'


def write_repository(folder: Path, told: dict[str, Any]) -> None:
    version = folder / told["name"] / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(configuration(told))
    shutil.copy(HERE / "triton_model.py", version / "model.py")
    shutil.copy(HERE / "session.py", version)


def binaries(folder: Path) -> Path:
    """The wheel's server with the backend's stub for this Python beside the backend, as the wheel itself starts it."""
    package = find_spec("pytriton")
    assert package is not None
    assert package.origin is not None
    wheel = Path(package.origin).parent / "tritonserver"
    shutil.copytree(wheel, folder, ignore=shutil.ignore_patterns("python_backend_stubs"))
    stub = f"python_backend_stubs/{sys.version_info[0]}.{sys.version_info[1]}/triton_python_backend_stub"
    shutil.copy(wheel / stub, folder / "backends" / "python")
    return folder


if __name__ == "__main__":
    work = Path(tempfile.mkdtemp())
    write_repository(work / "models", description())
    server = binaries(work / "server")
    site = sysconfig.get_path("purelib")
    libraries = [f"{site}/nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR")]
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where the stub finds this environment
    os.environ |= {"PATH": search, "LD_LIBRARY_PATH": ":".join(libraries)}
    options = {
        "model-repository": work / "models",
        "backend-directory": server / "backends",
        "http-address": HOST,
        "http-port": port(),
        "grpc-address": HOST,
        "grpc-port": os.environ["PEER_GRPC_PORT"],
        "allow-metrics": "false",
        "log-info": "false",
    }
    program = str(server / "bin" / "tritonserver")
    os.execv(program, [program, *(f"--{key}={value}" for key, value in options.items())])
