"""Values -> a kustomize overlay over k8s/ -> manifests, checked.

The overlay is plain kustomize: it can be committed and applied by a GitOps controller without this program.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from export.errors import ExportError, OptionError
from pressroom.k8s_checks import faults, quantity
from pressroom.k8s_values import Values

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1] / "k8s"
_CHANGED = {"cpu": ("requests", "cpu"), "memory": ("requests", "memory"), "memory_limit": ("limits", "memory")}
_SCALERS = {"HorizontalPodAutoscaler": "maxReplicas", "ScaledObject": "maxReplicaCount"}
_ROUTES = {"HTTPRoute": "components/routes/httproute.yaml", "GRPCRoute": "components/routes/grpcroute.yaml"}
_FAMILY = "app.kubernetes.io/component"


def render(values: Values) -> list[Object]:
    """The manifests. Raises OptionError where kubectl is missing, ExportError where the manifests break a rule."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".render-") as folder:  # kustomize reads below one root only
        write_overlay(values, Path(folder))
        objects = build(Path(folder))
    if found := faults(objects):
        raise ExportError(f"the manifests break a rule: {found[0]}", "change the values, or report it")
    return objects


def build(overlay: Path) -> list[Object]:
    """What `kubectl kustomize` makes of an overlay."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise OptionError("kubectl is not installed", "install it, or write the overlay alone with --overlay DIR")
    done = subprocess.run([kubectl, "kustomize", str(overlay)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"kubectl kustomize: {done.stderr.strip().splitlines()[-1][:300]}", "is k8s/ complete?")
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def write_overlay(values: Values, folder: Path) -> None:
    """kustomization.yaml in `folder`, which must lie one level below k8s/ or be moved there to be built."""
    text = yaml.safe_dump(overlay(values), sort_keys=False, width=120)
    (folder / "kustomization.yaml").write_text("# Made by `pressroom k8s render`.\n" + text, encoding="utf-8")


def overlay(values: Values) -> Object:
    """The kustomization as a document."""
    gpu = values.overlay == "gpu"
    made: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": values.namespace,
        "resources": ["../overlays/gpu"] if gpu else [f"../families/{family}" for family in values.families],
        "components": [f"../components/{name}" for name in values.components],
        "images": [_image("pressroom", values.image), _image("pressroom-artifacts", values.artifacts)],
        "patches": [*_family_patches(values), *_shared_patches(values), *_left_out(values)],
    }
    if pinned := {family: one.replicas for family, one in values.families.items() if one.replicas is not None}:
        made["replicas"] = [{"name": f"pressroom-{family}", "count": count} for family, count in pinned.items()]
    return made


def _image(name: str, wanted: str) -> Object:
    where, at, digest = wanted.partition("@")
    if at:
        return {"name": name, "newName": where, "digest": digest}
    where, _, tag = wanted.rpartition(":")
    return {"name": name, "newName": where, "newTag": tag}


def _family_patches(values: Values) -> list[Object]:
    patches = []
    for family, chosen in values.families.items():
        settings = {"PRESSROOM_MODELS": ",".join(chosen.models)}
        settings |= {f"PRESSROOM_{name.upper()}": _text(value) for name, value in chosen.settings.items()}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}, "data": settings}
        patches.append(_patch(config, "ConfigMap", family))
        resources: dict[str, dict[str, str]] = {}
        for field, (kind, what) in _CHANGED.items():
            if (value := getattr(chosen, field)) is not None:
                resources.setdefault(kind, {})[what] = value
        if chosen.store:  # the pod's disk: the artifacts, and half a GiB for the other volumes and logs
            resources.setdefault("limits", {})["ephemeral-storage"] = f"{ceil(quantity(chosen.store) / 2**20) + 512}Mi"
        pod: Object = {"containers": [{"name": "server", "resources": resources}]} if resources else {}
        if chosen.store:
            pod["volumes"] = [{"name": "store", "emptyDir": {"sizeLimit": chosen.store}}]
        if pod:
            patches.append(_patch(_deployment(pod), "Deployment", family))
        if chosen.max_replicas:
            patches += [_most(kind, field, family, chosen.max_replicas) for kind, field in _SCALERS.items()]
    return patches


def _shared_patches(values: Values) -> list[Object]:
    keys = {"volumes": [{"name": "keys", "secret": {"secretName": values.keys_secret}}]}
    patches = [_patch(_deployment(keys), "Deployment", None)]
    for kind, file in _ROUTES.items() if "routes" in values.components else ():
        route = {
            "hostnames": [values.hostname],
            "parentRefs": [{"name": values.gateway}],
            "rules": _rules(yaml.safe_load((ROOT / file).read_text(encoding="utf-8")), values),
        }
        steps = [{"op": "replace", "path": f"/spec/{field}", "value": value} for field, value in route.items()]
        patches.append({"target": {"kind": kind, "name": "pressroom"}, "patch": yaml.safe_dump(steps)})
    return patches


def _rules(route: Object, values: Values) -> list[Object]:
    """A route's rules for what is served; the gateway answers for families that have no server of their own."""
    rules = []
    for rule in route["spec"]["rules"]:
        (back,) = rule["backendRefs"]
        family = back["name"].removeprefix("pressroom-")
        if family in values.families:
            rules.append(rule)
        elif "gateway" in values.families:
            rules.append(rule | {"backendRefs": [back | {"name": "pressroom-gateway"}]})
    return rules


def _left_out(values: Values) -> list[Object]:
    """Objects that components or the GPU overlay bring for families that are not served."""
    kinds = {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}
    brought = [kinds[name] for name in values.components if name in kinds]
    everything = ("forecast", "llm", "detect", "text-detect", "watermark", "ehr")
    gone = [(kind, family) for kind in brought for family in everything if family not in values.families]
    patches = [_delete(kind, family) for kind, family in gone]
    if values.overlay == "gpu":
        own = ("Deployment", "Service", "ServiceAccount", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy")
        patches += [_delete(k, f) for k in own for f in ("forecast", "llm") if f not in values.families]
    return patches


def _delete(kind: str, family: str) -> Object:
    target = {"kind": kind, "labelSelector": f"{_FAMILY}={family}"}
    return {"target": target, "patch": yaml.safe_dump({"$patch": "delete", "kind": kind, "metadata": {"name": "any"}})}


def _most(kind: str, field: str, family: str, count: int) -> Object:
    target = {"kind": kind, "labelSelector": f"{_FAMILY}={family}"}
    return {"target": target, "patch": yaml.safe_dump([{"op": "replace", "path": f"/spec/{field}", "value": count}])}


def _deployment(pod: Object) -> Object:
    spec = {"template": {"spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "any"}, "spec": spec}


def _patch(document: Object, kind: str, family: str | None) -> Object:
    labels = "app.kubernetes.io/name=pressroom" if family is None else f"{_FAMILY}={family}"
    return {"target": {"kind": kind, "labelSelector": labels}, "patch": yaml.safe_dump(document, sort_keys=False)}


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
