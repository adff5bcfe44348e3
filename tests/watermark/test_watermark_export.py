"""Pressing a scheme: what it refuses, and that a stored one can be read again anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bentoml._internal.configuration.containers import BentoMLContainer
from bentoml._internal.models import ModelStore
from marked_server import SCHEME
from typer.testing import CliRunner

from export.artifact import open_artifact
from export.errors import OptionError
from export.watermark import WatermarkJob, press, recheck
from export.watermark_text import as_written
from pressroom.cli import app


@pytest.fixture
def store(mark_home: Path) -> Iterator[Path]:
    """The pressed scheme for code run in this process."""
    BentoMLContainer.model_store.set(ModelStore(mark_home / "models"))
    yield mark_home
    BentoMLContainer.model_store.reset()


def test_a_stored_scheme_reads_its_cases_and_its_example_again(store: Path) -> None:
    again = recheck(open_artifact(SCHEME))
    assert again.holds
    assert [one.name for one in again.findings][-2:] == ["unmarked", "too short"]


def test_verify_and_inspect_show_it(store: Path) -> None:
    shown = CliRunner().invoke(app, ["verify", SCHEME, "--json"])
    assert (shown.exit_code, json.loads(shown.stdout)["holds"]) == (0, True)
    told = CliRunner().invoke(app, ["inspect", SCHEME, "--json"])
    manifest = json.loads(told.stdout)["manifest"]
    assert (manifest["family"], manifest["architecture"]) == ("watermark", "balance-marking")
    assert manifest["settings"]["scheme"]["message_bits"] == 8
    assert CliRunner().invoke(app, ["inspect", SCHEME]).exit_code == 0


def test_pressing_the_same_again_changes_nothing(store: Path) -> None:
    settings = {"message_bits": 8, "tokens_per_bit": 9.0, "delta": 6.0, "permutations": 40}
    assert press(WatermarkJob(generator="tiny-fp32", name=SCHEME, settings=settings)).stored.unchanged


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"message_bits": 21}}, "--message-bits"),
        ({"settings": {"level": 0.9}}, "--level"),
        ({"settings": {"delta": 99.0}}, "--delta"),
        ({"settings": {"parity": 99}}, "--parity"),
        ({"settings": {"tokens_per_bit": 0.0}}, "--tokens-per-bit"),
        ({"generator": SCHEME}, "of family 'watermark'"),
    ],
)
def test_what_makes_no_scheme_is_refused(store: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        press(WatermarkJob(**({"generator": "tiny-fp32", "name": "never"} | changes)))
    assert not (store / "models" / "never").exists()


def test_a_text_too_small_or_none_is_refused(store: Path, tmp_path: Path) -> None:
    few, none = tmp_path / "few.txt", tmp_path / "none.txt"
    few.write_text("A few words.")
    none.write_bytes(b"\xff\xfe\x00")
    for file, said in ((few, "tokens"), (none, "UTF-8")):
        with pytest.raises(OptionError, match=said):
            press(WatermarkJob(generator="tiny-fp32", name="never", proxy_text=file))


def test_wikitext_is_read_as_people_write() -> None:
    raw = 'The 1 @,@ 200 @-@ ton ship ( 1 @.@ 5 km ) was " fast " , it \'s said .'
    assert as_written(raw) == 'The 1,200-ton ship (1.5 km) was "fast", it\'s said.'
