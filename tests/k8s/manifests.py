"""The manifests as kustomize builds them: every overlay, and overlays with components added."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir() if path.is_dir())
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir() if path.is_dir())
EXCLUSIVE = {"hpa": "keda", "keda": "hpa"}  # both would scale the Deployments

Object = dict[str, Any]


@cache
def built(overlay: str, *components: str) -> list[Object]:
    """What `kubectl kustomize` makes of an overlay with these components."""
    if not components:
        return _build(K8S / "overlays" / overlay)
    folder = K8S / f".test-{os.getpid()}"
    folder.mkdir()
    try:
        document = {"resources": [f"../overlays/{overlay}"], "components": [f"../components/{c}" for c in components]}
        (folder / "kustomization.yaml").write_text(json.dumps(document))
        return _build(folder)
    finally:
        shutil.rmtree(folder)


def _build(folder: Path) -> list[Object]:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def everything() -> list[list[Object]]:
    """Each overlay alone, and the CPU overlay with all components: once with hpa, once with keda."""
    with_hpa, with_keda = ([c for c in COMPONENTS if c != other] for other in ("keda", "hpa"))
    return [*(built(name) for name in OVERLAYS), built("cpu", *with_hpa), built("cpu", *with_keda)]


def files() -> Iterator[Path]:
    """Every YAML file of k8s/."""
    return (path for path in sorted(K8S.rglob("*.yaml")) if not path.parent.name.startswith("."))


def find(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def walk(node: Any) -> Iterator[Object]:
    """Every mapping inside a document."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)
