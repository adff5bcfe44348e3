"""Build the library of packed kernels from native/; a machine without a compiler gets one line, not a failure.

python scripts/build_native.py            build where sources are newer than the library
python scripts/build_native.py --strict   exit 1 where it cannot be built
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "native"
LIBRARY = ROOT / "models" / "packed" / "lib" / "libpressroom_ops.so"
COMMON = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-maybe-uninitialized"]
FLAGS = {  # of the files that need an instruction set
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mfma"],
    "vnni": ["-mavx512f", "-mavx512bw", "-mavx512vnni", "-mfma"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true", help="exit 1 where it cannot be built")
    strict = parser.parse_args().strict
    if fresh():
        return 0
    reason = build()
    if reason:
        print(f"own kernels: not built ({reason}); everything else works", file=sys.stderr)
    return int(strict and bool(reason))


def fresh() -> bool:
    """Is the library there and newer than everything it is made of?"""
    newest = max(path.stat().st_mtime for path in [*SOURCES.iterdir(), Path(__file__)])
    return LIBRARY.is_file() and LIBRARY.stat().st_mtime > newest


def build() -> str:
    """Compile and link; the reason why not, or nothing. The library appears whole or not at all."""
    compiler = found_compiler()
    if not compiler:
        return "no C++ compiler: install g++ or clang++, or name one in CXX"
    LIBRARY.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=LIBRARY.parent) as folder:
        objects = []
        for source in sources():
            target = Path(folder) / f"{source.stem}.o"
            if fault := failed([*compiler, *COMMON, *FLAGS.get(source.stem, []), "-c", str(source), "-o", str(target)]):
                return fault
            objects.append(str(target))
        whole = Path(folder) / LIBRARY.name
        if fault := failed([*compiler, "-shared", "-Wl,-z,nodelete", "-o", str(whole), *objects]):
            return fault
        whole.replace(LIBRARY)
    return ""


def found_compiler() -> list[str]:
    if chosen := os.environ.get("CXX", "").split():
        return chosen if shutil.which(chosen[0]) else []
    return next(([name] for name in ("c++", "g++", "clang++") if shutil.which(name)), [])


def sources() -> list[Path]:
    """All of native/, less what only another kind of processor runs."""
    foreign = () if platform.machine() in ("x86_64", "AMD64") else FLAGS
    return [path for path in sorted(SOURCES.glob("*.cpp")) if path.stem not in foreign]


def failed(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return (lines or ["the compiler failed"])[0] if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
