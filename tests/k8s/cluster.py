"""A real cluster of one node in a box: etcd, API server, controllers, scheduler, kubelet, proxy, containerd.

`scripts/control_plane.sh` makes the programs. Kubernetes is 1.20, Debian's; older_api.py says what that changes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from box import Box, box, cgroup_parents, route, usable
from cluster_api import Api, Object
from cluster_files import API, NODE, PAUSE, PODS, SERVICES, Files, Programs
from live_server import eventually
from manifests import ROOT

PROGRAMS = Programs(Path(os.environ.get("PRESSROOM_CONTROL_PLANE", ROOT / "out" / "control-plane")).resolve())
NAMESPACE = "models"
READY_SECONDS = 120


def missing() -> str | None:
    """What this machine lacks for a cluster."""
    if os.geteuid() != 0 or not usable():
        return "a cluster needs root, iproute2, iptables and runc"
    return None if (PROGRAMS.folder / "complete").exists() else "no control plane: make k8s-cluster"


@dataclass(frozen=True)
class Cluster:
    """A cluster whose node is ready."""

    box: Box
    files: Files
    api: Api

    def load_image(self, archive: Path) -> None:
        """Into the node's container runtime, as a registry would have brought it."""
        with archive.open("rb") as data:
            self.box.run(PROGRAMS.tool("bin/ctr"), "--namespace", "k8s.io", "images", "import", "-", data=data)

    def node(self) -> Object:
        return self.api.get("v1", "Node", NODE)

    def logs(self, pod: str) -> str:
        """What a pod's server printed last."""
        path = f"{self.api.path('v1', 'Pod', pod)}/log"
        text: str = self.api.call("GET", path, params={"tailLines": "50", "container": "server"})["text"]
        return text


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start one, with its files in `folder`, until its node is ready."""
    files = Files(folder, PROGRAMS)
    files.write()
    subprocess.run(["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"], check=True, capture_output=True)
    with box(folder) as opened:
        for parent in cgroup_parents():
            parent.mkdir()
        for destination in (SERVICES, PODS):
            route(destination)
        api = Api(API, files.tokens["admin"], NAMESPACE)
        try:
            started = Cluster(opened, files, api)
            _start(started)
            yield started
        finally:
            api.close()


def _start(made: Cluster) -> None:
    environment = made.files.environment()
    for name, command in made.files.commands().items():
        made.box.start(name, *command, environment=environment)
        if name == "containerd":
            eventually(lambda: _socket(made.box), "containerd listens", 30)
            made.load_image(_pause_image(made.files.folder))
        if name == "kube-apiserver":
            eventually(lambda: _alive(made) and made.api.healthy(), "the API server is ready", READY_SECONDS)
    eventually(lambda: _alive(made) and _node_ready(made), "the node is ready", READY_SECONDS)
    made.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


def _alive(made: Cluster) -> bool:
    made.box.check()
    return True


def _socket(opened: Box) -> bool:
    return (opened.folder / "run" / "containerd" / "containerd.sock").exists()


def _node_ready(made: Cluster) -> bool:
    for node in made.api.list("v1", "Node"):
        states = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
        return states.get("Ready") == "True"
    return False


def _pause_image(folder: Path) -> Path:
    """The sandbox's image, of the one program in pause.tar."""
    archive = folder / "pause-image.tar"
    entry = 'ENTRYPOINT ["/pause"]'
    for command in (
        ["podman", "import", "--quiet", "--change", entry, str(PROGRAMS.folder / "pause.tar"), PAUSE],
        ["podman", "save", "--quiet", "--output", str(archive), PAUSE],
        ["podman", "rmi", PAUSE],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return archive
