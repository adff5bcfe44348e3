"""docs/text-detection.md runs as it is; the tests' detector stands for the one it names."""

from __future__ import annotations

import sys
from pathlib import Path

from detecting import DETECTOR
from live_server import LiveServer

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, Reader

PAGE = ROOT / "docs" / "text-detection.md"


def test_every_block_of_the_page_runs(detecting: LiveServer, tmp_path: Path) -> None:
    reader = Reader(home=detecting.home, scratch=tmp_path, ports=(detecting.port, detecting.grpc_port))
    assert reader.follow_page(PAGE, {"smollm2-text": DETECTOR}) >= 1
