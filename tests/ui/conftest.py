"""One server with a model of every family, and one browser, for all tests of the playground."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import Playground, open_browser
from live_server import LiveServer, running_server
from stores import run_press, shared_store

_PRESS_TWINS = """
from pathlib import Path
from pressroom.bundled_llm import Effort, press_twins
from tiny_llm import make_tiny_llama
press_twins(effort=Effort(1, 1, 32, speed=False), model=make_tiny_llama(Path(sys.argv[1])))
"""


@pytest.fixture(scope="session")
def every_home(
    pressed_home: Path, clips_home: Path, ehr_home: Path, mark_home: Path, detector_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    """A BENTOML_HOME with a model of every family, and a pruned language model beside its dense twin."""
    folder = tmp_path_factory.mktemp("twins")

    def press(home: Path) -> None:
        run_press(home, _PRESS_TWINS, str(folder / "tiny"))
        for other in (pressed_home, clips_home, ehr_home, mark_home, detector_home):
            shutil.copytree(
                other / "models", home / "models", copy_function=os.link, dirs_exist_ok=True, ignore=_known(home)
            )

    return shared_store(tmp_path_factory, "every", press)


def _known(home: Path) -> Callable[[str, list[str]], set[str]]:
    """Leave out models that are there already: two stores share tiny-fp32."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        inside = {path.name for path in (home / "models").iterdir()}
        return inside & set(names) if Path(folder).name == "models" else set()

    return ignored


@pytest.fixture(scope="session")
def every_server(every_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready gateway over that store."""
    folder = tmp_path_factory.mktemp("every-server")
    keys = folder / "watermark.toml"
    keys.write_text('current = "one"\n[[keys]]\nid = "one"\nsecret = "' + "5a" * 32 + '"\n')
    settings = {
        "PRESSROOM_WATERMARK_KEYS_FILE": str(keys),
        "PRESSROOM_WATERMARK_SCHEME": "tiny-mark",
        "PRESSROOM_WATERMARK_DECODES_PER_MINUTE": "0",
    }
    with running_server(every_home, folder / "server.log", environment=settings) as server:
        yield server


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A browser that writes its downloads into a folder and remembers every request."""
    with open_browser(tmp_path_factory.mktemp("downloads")) as opened:
        yield opened


@pytest.fixture
def page(browser: Playground, every_server: LiveServer) -> Playground:
    """The playground, freshly loaded, at a desk's width and in light colours."""
    browser.open(every_server.url)
    return browser
