"""Programs that are not Python libraries of ours: whether one is there, and running one for a test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHECKOV = ROOT / ".venv-k8s" / "bin" / "checkov"
CRDS = ROOT / "tests" / "k8s" / "crds"
HINTS = {
    "kubectl": "kubectl is not installed",
    "promtool": "promtool is not installed (Debian package prometheus)",
    "prometheus": "prometheus is not installed (Debian package prometheus)",
    "prometheus-alertmanager": "prometheus-alertmanager is not installed (Debian package prometheus-alertmanager)",
    "checkov": "run `make k8s-tools`",
    "node": "run `make k8s-tools` where npm is installed",
    "chromium": "chromium is not installed (Debian packages chromium and chromium-driver)",
}


def missing(tool: str) -> bool:
    """Whether tests marked `needs(tool)` cannot run here."""
    if tool == "checkov":
        return not CHECKOV.exists()
    if tool == "node":
        return shutil.which("node") is None or not (CRDS / "node_modules").is_dir()
    if tool == "chromium":
        return shutil.which("chromium") is None or shutil.which("chromedriver") is None
    return shutil.which(tool) is None


@contextmanager
def program(command: list[Any], log: Path) -> Iterator[None]:
    """Start a program with its output in `log`; it is ended with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
