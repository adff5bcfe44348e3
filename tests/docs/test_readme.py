"""The README is executed: every command and every Python block, in order, against servers its own commands start."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import free_ports
from manual import ROOT, Block, Reader, read_blocks, runnable, unaccounted

README = ROOT / "README.md"
BLOCKS = read_blocks(README)
TO_RUN = runnable(README)


@pytest.fixture(scope="module")
def reader(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("readme")
    home = folder / "home"
    shutil.copytree(pressed_home, home, symlinks=True)
    (folder / "logs").mkdir()
    first, second = free_ports(2)
    following = Reader(home=home, scratch=folder / "logs", ports=(first, second))
    yield following
    following.close()


@pytest.mark.parametrize("block", TO_RUN, ids=lambda block: f"line-{block.line}-{block.language}")
def test_every_block_of_the_readme_runs(block: Block, reader: Reader) -> None:
    reader.follow(block)


def test_every_block_is_run_shown_or_marked() -> None:
    assert unaccounted(README) == []
    assert [b for b in BLOCKS if b.language == "console" and not b.commands] == []


@pytest.mark.parametrize("command", ["make setup", "make demo", "make serve", "make test", "make bench"])
def test_the_readme_names_the_five_commands(command: str) -> None:
    assert any(command in block.commands for block in BLOCKS)


def test_the_first_answer_comes_within_thirty_lines() -> None:
    lines = README.read_text().splitlines()
    assert "out/demo.png" in "\n".join(lines[:30])


def test_local_links_lead_somewhere() -> None:
    pages = [README, *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "k8s" / "README.md"]
    dead = [f"{page.name}: {link}" for page in pages for link in _links(page) if not (page.parent / link).exists()]
    assert not dead


def _links(page: Path) -> list[str]:
    found = re.findall(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    return [str(link) for link in found]
