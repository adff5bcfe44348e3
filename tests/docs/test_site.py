"""The documentation as a site: it builds without a warning, holds every page, and asks no other host for anything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import clean_environment
from manual import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import docs_site

FETCHED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//""")
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=clean_environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_the_guide_is_in_the_site_and_its_menu(site: Path) -> None:
    pages = {page.with_suffix(".html").name for page in DOCS.glob("*.md")} - {"bento.html"}
    menu = set(
        re.findall(r'class="md-nav__link"[^>]*href="([^"#]+)"|href="([^"#]+)"[^>]*class="md-nav__link', html(site))
    )
    named = {first or second for first, second in menu}
    assert {page for page in pages if not (site / page).is_file()} == set()
    assert pages - named <= {"index.html"}
    assert {"CHANGELOG.html", "CONTRIBUTING.html", "k8s/index.html"} <= named


def html(site: Path) -> str:
    return (site / "index.html").read_text()


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert [page.name for page in pages if FETCHED.search(page.read_text())] == []


def test_the_search_knows_the_pages_also_when_they_are_opened_from_disk(site: Path) -> None:
    script = (site / "search" / "search_index.js").read_text()
    found = json.loads(script.removeprefix("var __index = "))["docs"]
    assert any(
        "split-conformal" in entry["text"] for entry in found if entry["location"].startswith("forecasting.html")
    )


def test_a_link_beside_the_guide_is_turned_and_code_is_left_alone() -> None:
    text = "[k8s](../k8s/README.md#values), [here](api.md), [far](https://example.org/a.md)\n```text\n[x](../README.md)\n```\n"
    assert docs_site.turned(text, DOCS / "operate.md") == text.replace("../k8s/README.md", "k8s/README.md")
    assert docs_site.turned("[why](../docs/kubernetes.md)", ROOT / "k8s" / "README.md") == "[why](../kubernetes.md)"
    assert docs_site.turned("[all](tests/golden)", ROOT / "README.md") == "[all](tests/golden/README.md)"
    assert docs_site.turned("[gone](../nothing.md)", DOCS / "api.md") == "[gone](../nothing.md)"


def test_the_menu_is_the_index() -> None:
    rows = [
        "| page | for |",
        "|---|---|",
        "| [Start](quickstart.md) | it |",
        "## Rest",
        "| [Log](../CHANGELOG.md) | x |",
    ]
    index = "\n".join(["# Title", "## Begin", *rows])
    assert docs_site.navigation(index) == [
        {"Home": "index.md"},
        {"Begin": [{"Start": "quickstart.md"}]},
        {"Rest": [{"Log": "CHANGELOG.md"}]},
    ]
