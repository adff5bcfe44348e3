"""The manifests as data: every object of the base and of the overlays' own files, read without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
BASE = K8S / "base"
OVERLAYS = sorted(path for path in (K8S / "overlays").iterdir() if path.is_dir())

Object = dict[str, Any]


def read(path: Path) -> list[Object]:
    """Every document of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def kustomization(folder: Path) -> Object:
    (found,) = read(folder / "kustomization.yaml")
    return found


def base_objects() -> list[Object]:
    """All objects the base lists."""
    return [document for name in kustomization(BASE)["resources"] for document in read(BASE / name)]


def of_kind(kind: str) -> list[Object]:
    return [found for found in base_objects() if found["kind"] == kind]


def deployment() -> Object:
    (found,) = of_kind("Deployment")
    return found


def pod() -> Object:
    """The Deployment's pod specification."""
    spec: Object = deployment()["spec"]["template"]["spec"]
    return spec


def server() -> Object:
    """The one container."""
    (container,) = pod()["containers"]
    found: Object = container
    return found


def pod_labels() -> dict[str, str]:
    labels: dict[str, str] = deployment()["spec"]["template"]["metadata"]["labels"]
    return labels


def settings(folder: Path) -> dict[str, str]:
    """A settings.env as a mapping; empty if the folder has none."""
    file = folder / "settings.env"
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.partition("=")[::2] for line in lines if line and not line.startswith("#"))


def quantity(text: str) -> float:
    """A Kubernetes quantity in bytes or cores."""
    units = {"m": 1e-3, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "k": 1e3, "M": 1e6, "G": 1e9}
    for suffix, factor in units.items():
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


def walk(node: Any) -> Iterator[Object]:
    """Every mapping inside a document."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)
