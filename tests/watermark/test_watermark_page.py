"""docs/watermark.md and the round trip of the examples run as they are; a tiny model stands for the one they name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from live_server import LiveServer, clean_environment
from marked_server import SCHEME

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, Reader

PAGE = ROOT / "docs" / "watermark.md"
NAMED, MESSAGE = "smollm2-mark", "613"
OURS = "90"  # of the eight bits that the tests' scheme has


def test_every_block_of_the_page_runs(marks: LiveServer, tmp_path: Path) -> None:
    reader = Reader(home=marks.home, scratch=tmp_path, ports=(marks.port, marks.grpc_port))
    assert reader.follow_page(PAGE, {NAMED: SCHEME, MESSAGE: OURS}) >= 2


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_the_round_trip_reads_the_message_it_wrote(transport: str, marks: LiveServer, tmp_path: Path) -> None:
    url = marks.url if transport == "http" else f"grpc://{marks.grpc_address}"
    script = str(ROOT / "examples" / "watermark_round_trip.py")
    done = subprocess.run(
        [sys.executable, script, "--url", url, "--model", SCHEME, "--message", OURS, "--max-tokens", "230"],
        cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"read:          marked, message {OURS}," in done.stdout
    assert "the prompt:    too_short" in done.stdout
    assert "expecting 91: marked" not in done.stdout
