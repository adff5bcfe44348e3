"""The compiled kernels: where the library lies and how an onnxruntime session gets to know them.

`make setup` builds it from native/ where there is a C++ compiler (scripts/build_native.py does the same alone); all
else works without it. A graph with packed layers cannot run without: `register` says so before onnxruntime meets it.
An int8 graph can: it carries a definition of Linear8 by onnxruntime's own ops, which are slower.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime as ort

DOMAIN, VERSION = "pressroom", 1
PACKED24, LINEAR8 = "PackedLinear24", "Linear8"
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
    """Is the graph lost without the library? Looks for names in the file: weights lie beside it, so it is small."""
    return _names(graph, PACKED24)


def gains_by_kernels(graph: Path) -> bool:
    """Does the graph run with the library and, slower, without?"""
    return _names(graph, LINEAR8) and not needs_kernels(graph)


def register(options: ort.SessionOptions, graph: Path, *, optional: bool = True) -> None:
    """Make the ops known to sessions made with these options, if `graph` names them.

    optional  also where the graph runs without; False: onnxruntime's own ops, as on a machine without the library
    Raises KernelsMissingError where it needs them.
    """
    if needs_kernels(graph):
        if not is_built():
            raise KernelsMissingError
    elif not (optional and is_built() and gains_by_kernels(graph)):
        return
    options.register_custom_ops_library(str(LIBRARY))


def _names(graph: Path, op: str) -> bool:
    return op.encode() in graph.read_bytes()
