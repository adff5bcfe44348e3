"""Makes one site of pages that are written to be read in the repository: a hook of `mkdocs build` (mkdocs.yml).

- The index is the navigation: a section of docs/index.md is a section of the menu, a row of its table an entry.
- Pages link to files beside docs/ (`../k8s/README.md`). Such files come along under their path in the repository, and
  the links are turned. A folder stands for its README.md.

What a link does not find stays as it is written, so that `mkdocs build --strict` names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_SECTION = re.compile(r"^## (?P<title>.+)$|^\| \[(?P<name>[^\]]+)\]\((?P<page>[^)]+)\) \|", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The menu, from the index."""
    config.nav = navigation((DOCS / "index.md").read_text())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to beside docs/, and what those pages link to in turn."""
    waiting = [Path(file.abs_src_path).resolve() for file in files.documentation_pages() if file.abs_src_path]
    seen = {*waiting, *(DOCS / file.src_uri for file in files)}
    while waiting:
        page = waiting.pop()
        for target in _targets(page):
            if target not in seen:
                seen.add(target)
                files.append(_beside(config, target))
                waiting += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn a page's links into links of the site."""
    return turned(markdown, Path(str(page.file.abs_src_path)).resolve())


def navigation(index: str) -> list[Any]:
    """A menu in MkDocs' form: the index itself, then a title with its pages for each section."""
    menu: list[Any] = [{"Home": "index.md"}]
    for found in _SECTION.finditer(index):
        if found["title"]:
            pages: list[Any] = []
            menu.append({found["title"]: pages})
        else:
            pages.append({found["name"]: site_path(_file(DOCS / "index.md", found["page"]) or DOCS / found["page"])})
    return menu


def site_path(file: Path) -> str:
    """Where a file of the repository lies in the site: what is in docs/ at its root, all else under its own path."""
    return file.relative_to(DOCS if file.is_relative_to(DOCS) else ROOT).as_posix()


def turned(markdown: str, source: Path) -> str:
    """A page's text with links that hold in the site; code blocks stay as they are."""
    here = Path(site_path(source)).parent

    def turn(link: re.Match[str]) -> str:
        target = _file(source, link["path"])
        return os.path.relpath(site_path(target), here) + (link["anchor"] or "") if target else link[0]

    return _outside_code(markdown, lambda text: _LINK.sub(turn, text))


def _beside(config: MkDocsConfig, file: Path) -> File:
    level = InclusionLevel.NOT_IN_NAV  # nobody misses it there; the menu may name it all the same
    return File.generated(config, site_path(file), abs_src_path=str(file), inclusion=level)


def _targets(page: Path) -> Iterator[Path]:
    for link in _LINK.finditer(_outside_code(page.read_text(), str, code="")):
        if target := _file(page, link["path"]):
            yield target


def _file(source: Path, link: str) -> Path | None:
    """The file a page's link leads to, or None if there is none in the repository."""
    target = (source.parent / link).resolve()
    target = target / "README.md" if target.is_dir() else target
    return target if target.is_file() and target.is_relative_to(ROOT) else None


def _outside_code(markdown: str, change: Callable[[str], str], code: str | None = None) -> str:
    """`change` what stands between code blocks; the blocks stay, or become `code`."""
    done, start = [], 0
    for fence in _FENCE.finditer(markdown):
        done += [change(markdown[start : fence.start()]), fence[0] if code is None else code]
        start = fence.end()
    return "".join([*done, change(markdown[start:])])
