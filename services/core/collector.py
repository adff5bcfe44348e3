"""Python's cyclic collector: off the large, immortal heap of imported modules, and called where a model leaves."""

from __future__ import annotations

import gc


def calm() -> None:
    """Set aside what is there now.

    Walking it took tens of milliseconds at a time and set the p99 (82 -> 8 ms at 64 clients when frozen).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


def collect_all() -> None:
    """Free what has left, of what was set aside, too; by itself the collector comes by seldom, and not there."""
    frozen = gc.get_freeze_count()
    if frozen:
        gc.unfreeze()
    gc.collect()
    if frozen:
        gc.freeze()
