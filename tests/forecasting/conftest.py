"""A forecaster with known answers, see `persistence`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from persistence import Line8


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Line8]]:
    """Makes forecasters; what they remember lies in memory."""
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    made: list[Line8] = []

    def make(**options: Any) -> Line8:
        made.append(Line8(tmp_path / f"model-{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.model.retire()
        one.model.batcher._thread.stop()
