"""docs/llm.md and the chat example run as they are; the tiny model stands for the one they name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from live_server import LiveServer, clean_environment
from text_server import FP32

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, RUN, SHOWN, Reader, read_blocks

PAGE = ROOT / "docs" / "llm.md"
NAMED = "smollm2"


def test_every_block_of_the_page_runs(text: LiveServer, tmp_path: Path) -> None:
    reader = Reader(home=text.home, scratch=tmp_path, ports=(text.port, text.grpc_port))
    blocks = read_blocks(PAGE)
    assert {block.language for block in blocks} <= RUN | SHOWN
    for block in blocks:
        if block.language in RUN and block.why_not is None:
            reader.follow(replace(block, text=block.text.replace(NAMED, FP32)))
    reader.close()


def test_the_chat_example_streams_an_answer(text: LiveServer, tmp_path: Path) -> None:
    script = ROOT / "examples" / "chat_openai.py"
    done = subprocess.run(
        [sys.executable, str(script), "Hello", "--url", f"{text.url}/v1", "--model", FP32, "--max-tokens", "5"],
        cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"5 tokens of {FP32}, sha256:" in done.stdout
