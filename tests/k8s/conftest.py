"""Tools that are not Python libraries of ours: without them the tests that need one are skipped, by name.

Tests on a real cluster take minutes: they run where `-m cluster` asks for them (`make k8s-cluster`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, cluster
from cluster import missing as missing_cluster
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


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one node, empty but for the namespace."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = "cluster" in config.getoption("markexpr")
    no_cluster = missing_cluster() if asked else "on a real cluster: make k8s-cluster"
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        if no_cluster and item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.skip(reason=no_cluster))
        for marker in item.iter_markers("needs"):
            for tool in marker.args:
                if missing(tool):
                    item.add_marker(pytest.mark.skip(reason=HINTS[tool]))
