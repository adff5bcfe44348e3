"""A worker knows whether others of its server serve already."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.core.companions import Companions


@pytest.fixture
def _shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))


@pytest.mark.usefixtures("_shared")
def test_a_worker_learns_of_the_ready_one_before_it() -> None:
    first, second = Companions(2), Companions(2)
    assert not first.serving
    first.announce()
    assert second.serving


@pytest.mark.usefixtures("_shared")
def test_a_single_worker_listens_at_once_even_when_it_follows_a_crash() -> None:
    Companions(1).announce()
    assert not Companions(1).serving


def test_a_process_without_a_shared_directory_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    lonely = Companions(2)
    lonely.announce()
    assert not lonely.serving
