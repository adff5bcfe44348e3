"""Fixtures for every folder: one store with the bundled artifacts, one ready server, a maker of private ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from live_server import PRESSROOM, LiveServer, StartServer, clean_environment, running_server
from programs import HINTS, missing
from stores import run_press, shared_store
from tiny_detector import press_detector

_PRESS = "from pressroom.bundled import press_bundled; press_bundled()"
_PRESS_RECORDS = "from pressroom.bundled_ehr import press_records; press_records()"
_PRESS_CLIPS = "from pressroom.bundled_detect import press_clips; press_clips()"
_PRESS_LLM = """
from pathlib import Path
from export.llm import LlmJob, press
from tiny_llm import make_tiny_llama
folder = make_tiny_llama(Path(sys.argv[1]))
for precision in ("fp32", "int8"):
    press(LlmJob(model=str(folder), name=f"tiny-{precision}", precision=precision))
"""

_PRESS_MARK = """
from export.watermark import WatermarkJob, press
press(WatermarkJob(generator="tiny-fp32", name="tiny-mark", settings={
    "message_bits": 8, "tokens_per_bit": 9.0, "delta": 6.0, "permutations": 40,
}))
"""

_PRESS_EHR = """
from pathlib import Path
from tutorial_records import press_tutorial
press_tutorial(Path(sys.argv[1]))
"""


@pytest.fixture(scope="session")
def pressed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME that holds the two bundled artifacts. Shared: read it, copy it, never change it."""
    return shared_store(tmp_path_factory, "bundled", lambda home: run_press(home, _PRESS))


@pytest.fixture(scope="session")
def tiny_llm_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME that holds a tiny language model twice: tiny-fp32 and tiny-int8. Shared, as `pressed_home`."""
    source = tmp_path_factory.mktemp("tiny-llama")
    return shared_store(tmp_path_factory, "tiny-llm", lambda home: run_press(home, _PRESS_LLM, str(source)))


@pytest.fixture(scope="session")
def clips_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME that holds the bundled image models, clipself-tiny and clip-tiny. Shared, as `pressed_home`."""
    return shared_store(tmp_path_factory, "clips", lambda home: run_press(home, _PRESS_CLIPS))


@pytest.fixture(scope="session")
def mark_home(tiny_llm_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME with tiny-fp32 and tiny-mark, a watermarking scheme of eight bits. Shared, as `pressed_home`."""

    def press(home: Path) -> None:
        shutil.copytree(tiny_llm_home / "models" / "tiny-fp32", home / "models" / "tiny-fp32")
        run_press(home, _PRESS_MARK)

    return shared_store(tmp_path_factory, "tiny-mark", press)


@pytest.fixture(scope="session")
def detector_home(tiny_llm_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME with tiny-fp32 and both versions of its detector, tiny-text. Shared, as `pressed_home`."""
    corpora = tmp_path_factory.mktemp("corpora")
    return shared_store(tmp_path_factory, "detector", lambda home: press_detector(home, tiny_llm_home, corpora))


@pytest.fixture(scope="session")
def synthea_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME that holds the bundled record model and its adapters. Shared, as `pressed_home`."""
    return shared_store(tmp_path_factory, "synthea", lambda home: run_press(home, _PRESS_RECORDS))


@pytest.fixture(scope="session")
def ehr_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BENTOML_HOME that holds motor-tutorial and two versions of an adapter. Shared, as `pressed_home`."""
    checkpoint = tmp_path_factory.mktemp("tutorial") / "checkpoint"
    return shared_store(tmp_path_factory, "ehr", lambda home: run_press(home, _PRESS_EHR, str(checkpoint)))


@pytest.fixture(scope="session")
def ehr_server(ehr_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready gateway over that store, with default settings."""
    with running_server(ehr_home, tmp_path_factory.mktemp("ehr-server") / "server.log") as running:
        yield running


@pytest.fixture(scope="session")
def image_home(clips_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `clips_home` has, and the golden detectors fvit-tiny and fvit-transfer-tiny. Shared, as `pressed_home`."""

    def press(home: Path) -> None:
        shutil.copytree(clips_home, home, dirs_exist_ok=True)
        script = Path(__file__).parent / "detect" / "press_detectors.py"
        done = subprocess.run(
            [sys.executable, str(script)], env=clean_environment(home), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    return shared_store(tmp_path_factory, "images", press)


@pytest.fixture(scope="session")
def image_server(image_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready detect service with default settings and the four image models."""
    log = tmp_path_factory.mktemp("image-server") / "server.log"
    with running_server(image_home, log, command=(PRESSROOM, "serve", "detect")) as running:
        yield running


@pytest.fixture(scope="session")
def server(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A ready gateway with default settings and both bundled models."""
    with running_server(pressed_home, tmp_path_factory.mktemp("server") / "server.log") as running:
        yield running


@pytest.fixture(scope="module")
def start_server(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Further servers: `start_server(*flags, home=..., environment=..., ready=...)`; all are stopped at the end."""
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as running:

        def start(*arguments: str, home: Path | None = None, **options: Any) -> LiveServer:
            log = folder / f"server-{len(list(folder.iterdir()))}.log"
            one: AbstractContextManager[LiveServer] = running_server(home or pressed_home, log, *arguments, **options)
            return running.enter_context(one)

        yield start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the marker `needs` says: without its tools a test is skipped, by name."""
    for item in items:
        for marker in item.iter_markers("needs"):
            for tool in filter(missing, marker.args):
                item.add_marker(pytest.mark.skip(reason=HINTS[tool]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Show the log of every server a failed test used."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {})
        for name, value in used.items():
            if isinstance(value, LiveServer):
                report.sections.append((f"log of {name}", value.log_tail()))
    return report
