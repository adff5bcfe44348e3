"""Tests on a real cluster take minutes: they run where `-m cluster` asks for them (`make k8s-cluster`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import Cluster, cluster
from cluster import missing as missing_cluster


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one node, empty but for the namespace."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = "cluster" in config.getoption("markexpr")
    no_cluster = missing_cluster() if asked else "on a real cluster: make k8s-cluster"
    for item in items:
        if no_cluster and item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.skip(reason=no_cluster))
