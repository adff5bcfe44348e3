"""Tools that are not Python libraries of ours: without them the tests that need one are skipped, by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from manifests import CRDS, TOOLS

HINTS = {
    "kubectl": "kubectl is not installed",
    "promtool": "promtool is not installed (Debian package prometheus)",
    "checkov": "run `make k8s-tools`",
    "node": "run `make k8s-tools` where npm is installed",
}


def missing(tool: str) -> bool:
    if tool == "checkov":
        return not (TOOLS / "checkov").exists()
    if tool == "node":
        return shutil.which("node") is None or not (CRDS / "node_modules").is_dir()
    return shutil.which(tool) is None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        for marker in item.iter_markers("needs"):
            for tool in marker.args:
                if missing(tool):
                    item.add_marker(pytest.mark.skip(reason=HINTS[tool]))
