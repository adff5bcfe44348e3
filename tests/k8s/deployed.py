"""The forecast family on a real cluster: applied as `pressroom k8s render` prints it, called, and watched.

Nothing is changed but what the machine asks for: less CPU a pod (four pods share two cores with a control plane), and
seconds for the autoscaler's minutes.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import etth1
import yaml
from cluster import NAMESPACE, Cluster
from cluster_api import Object
from live_server import eventually
from manifests import ROOT
from older_api import older

from pressroom.k8s_render import render
from pressroom.k8s_values import read_values
from services.core.auth import hash_secret
from services.core.version import VERSION

NAME = "pressroom-forecast"
SERVER, ARTIFACTS = f"localhost/pressroom:{VERSION}", "localhost/pressroom-artifacts:test"
KEY, METRICS_KEY = "a-key-of-these-tests", "another-key-of-these-tests"
PODS = {"app.kubernetes.io/component": "forecast"}
MOST = 4  # pods


@dataclass
class Deployed:
    """What is deployed, and a log of what happened when."""

    cluster: Cluster
    folder: Path
    models: list[str]
    settings: dict[str, str | int] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        self.notes.append(f"{time.monotonic() - self.began:6.1f} s  {what}")

    @property
    def url(self) -> str:
        service = self.cluster.api.get("v1", "Service", NAME)["spec"]
        return f"http://{service['clusterIP']}:{service['ports'][0]['port']}"

    def apply(self, models: list[str] | None = None, **settings: str | int) -> None:
        """Render values with these models (else the usual ones) and added settings, and apply them."""
        self.settings |= settings
        family: dict[str, Any] = {"models": models or self.models, "settings": self.settings}
        family |= {"cpu": "200m", "max_replicas": MOST}
        values = {"namespace": NAMESPACE, "image": SERVER, "artifacts": ARTIFACTS, "components": ["hpa"]}
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump({**values, "families": {"forecast": family}}))
        for one in render(read_values(file)):
            self.cluster.api.apply(_hurried(older(one)))

    def deployment(self) -> Object:
        return self.cluster.api.get("apps/v1", "Deployment", NAME)

    def replicas(self) -> int:
        return int(self.deployment()["spec"]["replicas"])

    def pods(self) -> dict[str, bool]:
        """Every pod, and whether it is ready; those that are leaving are not."""
        found = self.cluster.api.list("v1", "Pod", **PODS)
        return {pod["metadata"]["name"]: _ready(pod) for pod in found}

    def addresses(self) -> list[str]:
        found = self.cluster.api.list("v1", "Pod", **PODS)
        return [pod["status"]["podIP"] for pod in found if _ready(pod)]

    def settled(self, count: int) -> bool:
        """The newest version runs in so many ready pods, and no other pod is left."""
        whole = self.deployment()
        status = whole["status"]
        newest = status.get("observedGeneration") == whole["metadata"]["generation"]
        numbers = {status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")}
        return newest and numbers == {count} and list(self.pods().values()) == [True] * count

    def wait(self, count: int, seconds: float = 180) -> set[str]:
        """The pods' names, once settled."""
        eventually(lambda: self.settled(count), f"{count} pods are ready and no others are left", seconds)
        return set(self.pods())


def _ready(pod: Object) -> bool:
    states = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return states.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def _hurried(one: Object) -> Object:
    if one["kind"] == "HorizontalPodAutoscaler":
        for direction in one["spec"]["behavior"].values():
            direction["stabilizationWindowSeconds"] = min(direction["stabilizationWindowSeconds"], 15)
            for policy in direction["policies"]:
                policy["periodSeconds"] = 5
    return one


@contextmanager
def deployed(cluster: Cluster, home: Path, folder: Path) -> Iterator[Deployed]:
    """The bundled forecaster CARD from the store in `home`; two pods are ready."""
    made = Deployed(cluster, folder, [f"{etth1.CARD}:1"])
    archive = _images(home, folder)
    cluster.load_image(archive)
    archive.unlink()
    made.note("images built, imported")
    entry = '[[keys]]\nid = "{}"\nsha256 = "{}"\nscopes = ["{}"]\n'
    keys = entry.format("t", hash_secret(KEY), "infer") + entry.format("m", hash_secret(METRICS_KEY), "metrics")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pressroom-keys"}}
    cluster.api.apply({**secret, "stringData": {"keys.toml": keys}})
    made.apply()
    made.wait(2)
    made.note("forecast family applied: 2 pods ready")
    yield made


def _images(home: Path, folder: Path) -> Path:
    """Our image, and one with the store's artifacts, in one archive."""
    build = ["buildah", "build", "--quiet", "--isolation", "chroot", "--file", str(ROOT / "Containerfile.artifacts")]
    given = ["--build-arg", f"SERVER={SERVER}", "--tag", ARTIFACTS, str(home / "models")]
    archive = folder / "images.tar"
    save = ["podman", "save", "--quiet", "--multi-image-archive", "--output", str(archive), SERVER, ARTIFACTS]
    subprocess.run([*build, *given], check=True, capture_output=True)
    try:
        subprocess.run(save, check=True, capture_output=True)
    finally:
        subprocess.run(["podman", "rmi", ARTIFACTS], check=False, capture_output=True)
    return archive
