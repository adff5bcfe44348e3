"""docs/llm.md and the example for openai run as they are; the tiny model stands for the one they name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from live_server import LiveServer, clean_environment
from text_server import FP32, INT8

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, Reader

PAGE = ROOT / "docs" / "llm.md"
NAMED = "smollm2"


def test_every_block_of_the_page_runs(text: LiveServer, tmp_path: Path) -> None:
    reader = Reader(home=text.home, scratch=tmp_path, ports=(text.port, text.grpc_port))
    assert reader.follow_page(PAGE, {NAMED: FP32}) >= 1


def test_the_openai_example_lets_both_models_continue(text: LiveServer, tmp_path: Path) -> None:
    script = ROOT / "examples" / "pruned_openai.py"
    asked = ["Hello", "--url", f"{text.url}/v1", "--models", f"{FP32},{INT8}", "--max-tokens", "5"]
    done = subprocess.run(
        [sys.executable, str(script), *asked],
        cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [f"{model}: Hello" in done.stdout for model in (FP32, INT8)] == [True, True]
    assert done.stdout.count("  5 tokens, ") == 2
    assert done.stdout.count("sha256:") == 2
