"""What a certificate says about the machine it was made on: library versions and the CPU's arithmetic, no names."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "onnx", "onnxruntime", "numpy")
FLAGS = ("avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "sve")
_CPUINFO = Path("/proc/cpuinfo")


def versions() -> dict[str, str]:
    """Versions of the libraries that do arithmetic, as installed."""
    return {name: version(name) for name in LIBRARIES}


def cpu_flags() -> dict[str, Any]:
    """Machine type and those CPU flags that select other arithmetic kernels; no flags where the system tells none."""
    present: set[str] = set()
    if _CPUINFO.exists():
        lines = _CPUINFO.read_text().splitlines()
        found = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
        present = set(found.partition(":")[2].split())
    return {"machine": platform.machine(), "flags": [flag for flag in FLAGS if flag in present]}
