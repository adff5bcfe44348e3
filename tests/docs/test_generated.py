"""What is generated from the program says what the program does now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from manual import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import generate_docs

from models.forecasting.series import read_series
from services.core.errors import CODES
from services.core.settings import Settings


@pytest.mark.parametrize("part", generate_docs.PARTS)
def test_every_part_has_its_page(part: str) -> None:
    assert any(f"<!-- generated: {part} -->" in page.read_text() for page in generate_docs.DOCS.glob("*.md"))


def test_an_outdated_page_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated: errors -->\nold\n<!-- end -->\nafter\n")
    monkeypatch.setattr(generate_docs, "DOCS", tmp_path)
    assert generate_docs.outdated() == [page]
    text = generate_docs.render(page.read_text())
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert all(f"`{code}`" in text for code in CODES)


def test_the_settings_page_names_every_setting() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    assert [name for name in Settings.model_fields if f"`PRESSROOM_{name.upper()}`" not in text] == []


def test_the_unbroken_series_of_the_refusals_is_accepted() -> None:
    from broken_series import COLUMNS, SPEC, good

    assert read_series(good(), SPEC, "series[0]").columns == COLUMNS


def test_the_page_shows_every_refusal_a_series_can_get() -> None:
    text = (ROOT / "docs" / "forecasting.md").read_text()
    about_series = ("history_", "columns_", "length_", "value_", "timestamps_", "frequency_", "horizon_", "empty_batch")
    records = (ROOT / "docs" / "ehr.md").read_text()  # a patient's history is another one
    text += "".join(f"`{code}`" for code in CODES if code.startswith("history_") and f"`{code}`" in records)
    assert [code for code in CODES if code.startswith(about_series) and f"`{code}`" not in text] == []


def test_every_generated_part_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/generate_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
