"""Memory for keys and values: reserved for all slots at once, taken where tokens are written, given back afterwards.

A sequence's capacity is as long as the model's context, which few use; so a process would hold slots x context tokens
if memory once touched stayed. Here it holds about what the admitted sequences have written.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE; memory is limited by admission, not here


class CacheMemory:
    """float32 [parts, slots, kv_heads, capacity, head_dim], zeros. Raises MemoryError where it cannot be reserved."""

    def __init__(self, shape: tuple[int, int, int, int, int]) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * 4
        try:
            self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError:
            raise MemoryError(f"no address space for a cache of {size / 2**30:.1f} GiB") from None
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            self._advise(mmap.MADV_NOHUGEPAGE, 0, size)  # huge pages would take memory no token was written to
        self.array: npt.NDArray[np.float32] = np.frombuffer(self._map, np.float32).reshape(shape)

    def release(self, slot: int) -> None:
        """Give back a slot's memory. It reads as zeros afterwards."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        parts, slots = self.array.shape[:2]
        size = self.array[0, 0].nbytes
        for part in range(parts):
            start = (part * slots + slot) * size
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE  # whole pages of this slot only
            length = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE - first
            if length > 0:
                self._advise(mmap.MADV_DONTNEED, first, length)

    def _advise(self, advice: int, start: int, length: int) -> None:
        advise: Any = self._map.madvise
        advise(advice, start, length)
