"""What a number was measured on: processor, cores, versions. No host names, no paths."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

_PACKAGES = (
    "pressroom", "bentoml", "uvicorn", "uvloop", "httptools", "grpcio", "protobuf", "onnxruntime", "numpy", "orjson",
)  # fmt: skip


def processor() -> str:
    """The processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def describe() -> dict[str, str]:
    """Machine and versions, in the order to print."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    }
