"""The payload log: off unless named, owner's eyes only, sampled, identifiers replaced, private models never."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from doubles import FakeModel, finished_call

from services.core.journal import Journal
from services.core.payload_log import REDACTED, PayloadLog, redact
from services.core.settings import Settings

REQUEST = {"model": "m", "series": [{"id": "ward-7", "values": {"a": [1.0, 2.0]}}], "user": "jo"}
ANSWER = {"series": [{"id": "ward-7", "values": {"a": np.array([3.5])}}]}


def log(path: Path, fraction: float = 1.0) -> PayloadLog:
    return PayloadLog(Settings(payload_log=str(path), payload_log_fraction=fraction))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_nothing_is_logged_unless_a_file_is_named() -> None:
    assert Journal(Settings(access_log="off")).payloads is None


def test_an_exchange_is_one_line_with_identifiers_replaced(tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    log(path).write(finished_call(), REQUEST, ANSWER)
    assert lines(path) == [
        {
            "request_id": "request-1",
            "request": {"model": "m", "series": [{"id": REDACTED, "values": {"a": [1.0, 2.0]}}], "user": REDACTED},
            "answer": {"series": [{"id": REDACTED, "values": {"a": [3.5]}}]},
        }
    ]


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_only_the_owner_can_read_the_file(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "payloads"
    before = os.umask(mask)
    try:
        log(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_private_model_is_never_logged_whatever_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    log(path).write(finished_call(model=FakeModel(private=True)), REQUEST, ANSWER)
    assert path.read_text() == ""


def test_a_request_no_model_answered_is_not_logged(tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    log(path).write(finished_call(model=None), REQUEST, ANSWER)
    assert path.read_text() == ""


@pytest.mark.parametrize(("fraction", "least", "most"), [(0.0, 0, 0), (0.3, 200, 400), (1.0, 1000, 1000)])
def test_the_sampled_share_is_written(tmp_path: Path, fraction: float, least: int, most: int) -> None:
    path = tmp_path / "payloads"
    one = log(path, fraction)
    for _ in range(1000):
        one.write(finished_call(), {}, {})
    assert least <= len(lines(path)) <= most


def test_an_existing_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    for _ in range(2):
        log(path).write(finished_call(), {}, {})
    assert len(lines(path)) == 2


def test_redaction_leaves_the_original_alone() -> None:
    original = {"id": "a", "nested": [{"patient_id": 3, "subject_id": None, "value": 1}]}
    assert redact(original) == {
        "id": REDACTED,
        "nested": [{"patient_id": REDACTED, "subject_id": None, "value": 1}],
    }
    assert original["id"] == "a"
