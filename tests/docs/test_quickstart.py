"""The quick start as a newcomer follows it: its own server over everything bundled, and the five answers it promises.

A tiny language model and a scheme of eight bits stand for the embedded model, whose pressing takes minutes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from live_server import free_ports
from manual import ROOT, Block, Reader, runnable, unaccounted

PAGE = ROOT / "docs" / "quickstart.md"
STAND_INS = {
    "smollm2-mark": "tiny-mark",
    "smollm2": "tiny-fp32",
    "613": "90",
    "--ignore-eos": "--ignore-eos --max-tokens 230",  # a tiny model's tokens do not all survive being text
    "ignore_eos=True": "ignore_eos=True, max_tokens=230",
}


@pytest.fixture(scope="module")
def home(
    pressed_home: Path, clips_home: Path, mark_home: Path, synthea_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """One store with a model of every family that the page asks."""
    home = tmp_path_factory.mktemp("quickstart") / "home"
    for one in (pressed_home, clips_home, mark_home, synthea_home):
        shutil.copytree(one, home, symlinks=True, dirs_exist_ok=True)
    return home


@pytest.fixture(scope="module")
def followed(home: Path) -> Iterator[tuple[Reader, Path]]:
    """A reader who has done all of the page, and the folder that stands for `out/`."""
    out = home.parent / "out"
    out.mkdir()
    (home.parent / "logs").mkdir()
    first, second = free_ports(2)
    reader = Reader(home=home, scratch=home.parent / "logs", ports=(first, second))
    try:
        for block in runnable(PAGE):
            with redirect_stdout(StringIO()) as printed:
                reader.follow(replace(block, text=stood_in(block, out)))
            reader.said += printed.getvalue()
        yield reader, out
    finally:
        reader.close()


def stood_in(block: Block, out: Path) -> str:
    text = block.text.replace("out/", f"{out}/")
    for named, ours in STAND_INS.items():
        text = text.replace(named, ours)
    return text


@pytest.mark.parametrize("picture", ["forecast.png", "found.png", "survival.png"])
def test_pictures_are_drawn_of_forecast_detection_and_survival(picture: str, followed: tuple[Reader, Path]) -> None:
    _, out = followed
    assert (out / picture).stat().st_size > 5_000


def test_the_completion_comes_in_openai_s_shape(followed: tuple[Reader, Path]) -> None:
    reader, _ = followed
    line = next(line for line in reader.said.splitlines() if line.startswith('{"id":"chatcmpl'))
    assert json.loads(line)["choices"][0]["message"]["role"] == "assistant"


def test_the_watermark_is_read_by_the_command_and_from_python(followed: tuple[Reader, Path]) -> None:
    reader, _ = followed
    lines = reader.said.splitlines()
    assert "90" in lines  # the Python block's reading
    assert any("marked" in line and " 90 " in f"{line} " for line in lines)


def test_two_commands_come_first_and_every_block_is_run_shown_or_marked() -> None:
    assert runnable(PAGE)[0].commands == ["make setup", "make demo"]
    assert unaccounted(PAGE) == []
