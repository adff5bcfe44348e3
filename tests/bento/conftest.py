"""One bento of the bundled artifacts, for every file here."""

from __future__ import annotations

from pathlib import Path

import pytest
from built import Bento, build


@pytest.fixture(scope="session")
def bento(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Bento:
    return build(pressed_home, tmp_path_factory.mktemp("bento") / "home")
