"""A decoded inference request, and the layouts of those that came before it.

The JSON header of a binary request is the same for every request a caller makes, so what it says is kept; gRPC's
messages are kept likewise (`services.core.oip.grpc_direct`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.core.tensors import Tensors

HEADER_BYTES, HEADERS = 2048, 256  # longest header kept, and how many


@dataclass(slots=True)  # made for every request, and freezing costs more than making: treated as frozen
class InferRequest:
    """A decoded request.

    outputs  name -> whether it is wanted as raw bytes; None: all outputs
    binary   how outputs are wanted that say nothing themselves
    """

    id: str
    tensors: Tensors
    outputs: dict[str, bool | None] | None
    binary: bool

    def wants_binary(self, name: str) -> bool:
        wish = self.outputs.get(name) if self.outputs is not None else None
        return self.binary if wish is None else wish


@dataclass(frozen=True)
class Layout:
    """Where the raw tensors of a request lie, and everything else its JSON header says.

    tensors  name, data type, shape, elements, first byte
    """

    id: str
    tensors: tuple[tuple[str, np.dtype[Any], tuple[int, ...], int, int], ...]
    outputs: dict[str, bool | None] | None
    binary: bool

    def read(self, body: bytes) -> InferRequest:
        """The request; its tensors are read-only views of the body."""
        tensors = {
            name: np.frombuffer(body, dtype, count, at).reshape(shape) for name, dtype, shape, count, at in self.tensors
        }
        return InferRequest(self.id, tensors, self.outputs, self.binary)

    def moved(self, by: int) -> Layout:
        """The same layout in a body that begins so many bytes later."""
        tensors = tuple((name, dtype, shape, count, at + by) for name, dtype, shape, count, at in self.tensors)
        return Layout(self.id, tensors, self.outputs, self.binary)


def layout_of(request: InferRequest, starts: Sequence[int]) -> Layout:
    """Where the tensors of a request lie that begin at the given bytes, one beginning a tensor."""
    tensors = [
        (name, t.dtype, t.shape, t.size, at) for (name, t), at in zip(request.tensors.items(), starts, strict=True)
    ]
    return Layout(request.id, tuple(tensors), request.outputs, request.binary)


class Layouts:
    """Layouts by JSON header and size of the body.

    decode  reads a body whose header ends at a given byte, the long way
    """

    def __init__(self, decode: Callable[[bytes, int], InferRequest]) -> None:
        self._decode = decode
        self._known: dict[tuple[bytes, int], Layout] = {}

    def read(self, body: bytes, header_length: int) -> InferRequest:
        """The request. Raises what `decode` raises; what it refused is not kept."""
        if not HEADER_BYTES >= header_length < len(body):
            return self._decode(body, header_length)
        layout = self.find(body[:header_length], len(body))
        if layout is not None:
            return layout.read(body)
        request = self._decode(body, header_length)
        self._keep((body[:header_length], len(body)), request)
        return request

    def find(self, header: bytes, size: int) -> Layout | None:
        """The layout of a body of so many bytes that begins with this JSON header, if one of the same came before."""
        return self._known.get((header, size))

    def _keep(self, key: tuple[bytes, int], request: InferRequest) -> None:
        """Remember what a header said, if all of its tensors came raw and have a fixed size."""
        header, size = key
        starts, at = [], len(header)
        for tensor in request.tensors.values():
            if tensor.size == 0 or tensor.dtype.kind == "O":
                return
            starts.append(at)
            at += tensor.nbytes
        if at != size:
            return  # data in the header
        if len(self._known) >= HEADERS:
            self._known.clear()
        self._known[key] = layout_of(request, starts)
