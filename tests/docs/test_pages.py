"""Every block of the guide runs, page by page, against the shared server and a private copy of the store."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_server import LiveServer
from manual import ROOT, Reader, read_blocks, runnable, unaccounted

DOCS = ROOT / "docs"
OWN_TEST = {
    "detection.md",  # asks image models: see tests/detection/test_detection_page.py
    "add_architecture.md",  # its blocks are one program: see test_add_architecture.py
    "text-detection.md",  # asks a detector: see tests/text_detection/test_detect_page.py
    "llm.md",  # asks a language model: see tests/llm/test_text_page.py
    "onnx.md",  # asks a graph: see tests/onnx_graphs/test_onnx_served.py
    "watermark.md",  # asks a scheme: see tests/watermark/test_watermark_page.py
    "ehr.md",  # asks a record model: see tests/ehr/test_ehr_synthea.py
    "quickstart.md",  # asks all of them: see test_quickstart.py
}
OTHERS = ("CONTRIBUTING.md", "k8s/README.md", "examples/README.md")
ALL = [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in OTHERS)]
CLIENT = ROOT / "clients" / "python" / "README.md"  # its Python runs in tests/clients/test_client_package.py
PAGES = [page for page in ALL if page.name not in OWN_TEST]
WITH_BLOCKS = [page for page in PAGES if runnable(page)]


@pytest.fixture(scope="module")
def follow(pressed_home: Path, server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    home = tmp_path_factory.mktemp("guide") / "home"
    shutil.copytree(pressed_home, home, symlinks=True)

    def run(page: Path) -> None:
        reader = Reader(home=home, scratch=home.parent, ports=(server.port, server.grpc_port))
        reader.follow_page(page)

    return run


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page: Path, follow: Callable[[Path], None]) -> None:
    follow(page)


@pytest.mark.parametrize("page", [*ALL, CLIENT], ids=lambda page: page.name)
def test_every_block_of_a_page_is_run_shown_or_marked(page: Path) -> None:
    assert unaccounted(page) == []


def test_no_page_elsewhere_has_blocks_that_nobody_runs() -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    pages = {ROOT / name for name in listed.stdout.split()} - {*ALL, CLIENT, ROOT / "README.md"}
    assert [str(page) for page in pages if read_blocks(page)] == []


def test_the_index_names_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    hidden = {"index.md", "bento.md"}  # bento.md is what a bento shows about itself
    assert [page.name for page in DOCS.glob("*.md") if page.name not in hidden and f"({page.name})" not in index] == []
