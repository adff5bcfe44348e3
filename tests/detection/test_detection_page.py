"""docs/detection.md and the photograph example run as they are, on the bundled image models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from live_server import LiveServer, clean_environment
from PIL import Image

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, Reader

PAGE = ROOT / "docs" / "detection.md"


def test_every_block_of_the_page_runs(image_server: LiveServer, tmp_path: Path) -> None:
    ports = (image_server.port, image_server.grpc_port)
    reader = Reader(home=image_server.home, scratch=tmp_path, ports=ports)
    assert reader.follow_page(PAGE) >= 1


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_the_photograph_example_says_what_it_sees_and_draws_it(
    transport: str, image_server: LiveServer, tmp_path: Path
) -> None:
    script = ROOT / "examples" / "detect_photograph.py"
    url = image_server.url if transport == "http" else f"grpc://{image_server.grpc_address}"
    done = subprocess.run(
        [sys.executable, str(script), "--url", url, "--out", "here/drawn.png"],
        cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "clipself-tiny:" in done.stdout
    assert "inside the box:    cat" in done.stdout
    photograph = np.asarray(Image.open(ROOT / "data" / "photographs" / "chelsea.jpg").convert("RGB"))
    drawn = np.asarray(Image.open(tmp_path / "here" / "drawn.png"))
    assert drawn.shape == photograph.shape
    assert (drawn != photograph).any()
