"""The recipes are no installed package: they run in a clone, and so do their tests; on one thread, as by command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """With another number of threads sums round otherwise, and bytes differ."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
