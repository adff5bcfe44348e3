"""The compiled kernels: where the library lies and how an onnxruntime session gets to know them.

`make setup` builds it from native/ where there is a C++ compiler (scripts/build_native.py does the same alone); all
else works without it. A graph with packed layers cannot run without: `register` says so before onnxruntime meets it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime as ort

DOMAIN, VERSION = "pressroom", 1
LIBRARY = Path(__file__).parent / "lib" / "libpressroom_ops.so"
HINT = "run `make setup` where a C++ compiler is installed (g++ or clang++), or serve the fp32, int8 or int4 artifact"


class KernelsMissingError(RuntimeError):
    """A graph needs the packed kernels and they were not built. message, hint: for the person who loads it."""

    def __init__(self) -> None:
        self.message = "the graph has packed 2:4 layers, and this installation lacks the kernels for them"
        self.hint = HINT
        super().__init__(f"{self.message}; {self.hint}")


def is_built() -> bool:
    """Was the library built?"""
    return LIBRARY.is_file()


def needs_kernels(graph: Path) -> bool:
    """Does the graph name ops of ours? Looks for the name in the file: weights lie beside it, so it is small."""
    return (b"PackedLinear24" in graph.read_bytes()) or (b"Linear8" in graph.read_bytes() and not __import__("os").environ.get("NOL8"))


def register(options: ort.SessionOptions, graph: Path) -> None:
    """Make the ops known to sessions made with these options, if `graph` needs them. Raises KernelsMissingError."""
    if not needs_kernels(graph):
        return
    if not is_built():
        raise KernelsMissingError
    options.register_custom_ops_library(str(LIBRARY))
