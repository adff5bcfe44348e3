"""Who is measured: how each server is installed and started, and which requests it answers.

To add one: a program in `servers/`, a line here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.environments import environment
from benchmarks.server import HOME as STORE
from benchmarks.server import HOST, ROOT

SERVERS = Path(__file__).parent / "servers"
OURS = "pressroom"
_ONNXRUNTIME = "onnxruntime==1.32.0"  # the same for everybody
_NUMPY = "numpy==2.4.6"

Command = Callable[[Path, int, int], list[str]]


@dataclass(frozen=True)
class Contender:
    """One server.

    wires     keys of WIRES, HTTP first
    packages  of its environment, the server itself first; empty: it runs in ours
    command   interpreter, HTTP port, gRPC port -> what starts it
    settings  environment variables beyond those of `processes.served`
    """

    name: str
    title: str
    wires: tuple[str, ...]
    packages: tuple[str, ...]
    command: Command
    settings: Mapping[str, str] = field(default_factory=dict)

    def python(self) -> Path:
        """The interpreter of its environment, which is made if it is not there. Raises PeerMissing."""
        return environment(self.name, self.packages) if self.packages else Path(sys.executable)


def _program(name: str) -> Command:
    return lambda python, port, grpc_port: [str(python), str(SERVERS / name)]


def _bentoml(python: Path, port: int, grpc_port: int) -> list[str]:
    program = str(python.with_name("bentoml"))
    return [program, "serve", "bentoml_peer:Peer", "--host", HOST, "--port", str(port)]


def _ours(python: Path, port: int, grpc_port: int) -> list[str]:
    ports = ["--port", str(port), "--grpc-port", str(grpc_port)]
    return [str(python), "-c", "from pressroom.cli import main; main()", "serve", "onnx", "--host", HOST, *ports]


CONTENDERS = {
    one.name: one
    for one in (
        Contender(
            OURS,
            "Pressroom",
            ("oip-binary", "oip-grpc"),
            (),
            _ours,
            {"BENTOML_HOME": str(STORE), "BENTOML_DO_NOT_TRACK": "True", "PYTHONPATH": str(ROOT)},
        ),
        Contender("mosec", "mosec", ("bytes",), ("mosec==0.9.8", _ONNXRUNTIME, _NUMPY), _program("mosec_peer.py")),
        Contender(
            "starlette",
            "Starlette, own batcher",
            ("bytes",),
            ("starlette==1.10.0", "uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0", _ONNXRUNTIME, _NUMPY),
            _program("starlette_peer.py"),
        ),
        Contender(
            "triton",
            "Triton, python backend",
            ("oip-binary", "oip-grpc"),
            ("nvidia-pytriton==0.7.0", _ONNXRUNTIME, "numpy==1.26.4"),
            _program("triton_peer.py"),
        ),
        Contender(
            "mlserver",
            "MLServer",
            ("oip-json", "oip-grpc"),
            ("mlserver==1.7.1", "uvloop==0.21.0", _ONNXRUNTIME, _NUMPY),  # its workers do not start on uvloop 0.22
            _program("mlserver_peer.py"),
        ),
        Contender(
            "bentoml",
            "BentoML, stock",
            ("rows-json",),
            ("bentoml==1.4.40", _ONNXRUNTIME, _NUMPY),
            _bentoml,
            {"BENTOML_DO_NOT_TRACK": "True"},
        ),
        Contender(
            "litserve",
            "LitServe",
            ("row-json",),
            ("litserve==0.2.19", _ONNXRUNTIME, _NUMPY),
            _program("litserve_peer.py"),
        ),
        Contender(
            "ray",
            "Ray Serve",
            ("bytes",),
            ("ray[serve]==2.60.0", _ONNXRUNTIME, _NUMPY),
            _program("ray_peer.py"),
            {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"},
        ),
    )
}
