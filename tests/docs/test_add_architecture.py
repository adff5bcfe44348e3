"""The worked example of docs/add_architecture.md works as it is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from live_server import clean_environment
from manual import ROOT, read_blocks

PAGE = ROOT / "docs" / "add_architecture.md"


def test_the_worked_example_can_be_pressed_and_served(tmp_path: Path) -> None:
    folder = tmp_path / "further"
    (folder / "nlinear").mkdir(parents=True)
    code = next(block.text for block in read_blocks(PAGE) if block.language == "python")
    (folder / "nlinear" / "__init__.py").write_text(code)

    script = str(Path(__file__).with_name("press_nlinear.py"))
    done = subprocess.run(
        [sys.executable, script, str(folder)],
        cwd=ROOT, env=clean_environment(tmp_path / "home"), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) < 1e-5


def test_the_registry_line_of_the_page_is_the_registry_s_own_form() -> None:
    blocks = [block.text for block in read_blocks(PAGE) if block.language == "python"]
    assert blocks[1].strip() == 'ARCHITECTURES["nlinear"] = "models.nlinear"'
