"""Rules that schemas do not know: what makes manifests that parse also work, and survive a bad day.

`faults(objects)` says in words what is broken, naming object and field; empty is good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Object = dict[str, Any]

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_UNITS = {
    "m": 1e-3,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}


def faults(objects: list[Object]) -> list[str]:
    """Every broken rule."""
    found = [fault for rule in _RULES for fault in rule(objects)]
    return [*found, *_twice(objects)]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def quantity(text: str | float) -> float:
    """A Kubernetes quantity in bytes or cores."""
    written = str(text)
    for suffix, factor in _UNITS.items():
        if written.endswith(suffix):
            return float(written.removesuffix(suffix)) * factor
    return float(written)


def _name(one: Object) -> str:
    return f"{one['kind']} {one['metadata']['name']}"


def _pod(deployment: Object) -> Object:
    spec: Object = deployment["spec"]["template"]["spec"]
    return spec


def _labels(deployment: Object) -> dict[str, str]:
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"].get("labels", {})
    return labels


def _containers(deployment: Object) -> list[Object]:
    pod = _pod(deployment)
    return [*pod.get("initContainers", []), *pod["containers"]]


def _selects(selector: Object | None, labels: dict[str, str]) -> bool:
    wanted = (selector or {}).get("matchLabels", {})
    return bool(wanted) and wanted.items() <= labels.items()


def _twice(objects: list[Object]) -> Iterator[str]:
    seen: set[tuple[str, str, str]] = set()
    for one in objects:
        key = (one["apiVersion"], one["kind"], one["metadata"]["name"])
        if key in seen:
            yield f"{_name(one)}: is there twice"
        seen.add(key)


def _ports(objects: list[Object]) -> Iterator[str]:
    """Probes and Services name ports that the container has."""
    for deployment in of_kind(objects, "Deployment"):
        ports = {port["name"]: port["containerPort"] for c in _containers(deployment) for port in c.get("ports", [])}
        known = {*ports, *ports.values()}
        for container in _containers(deployment):
            for probe in PROBES:
                asked = container.get(probe, {})
                port = asked.get("httpGet", asked.get("grpc", {})).get("port")
                if port is not None and port not in known:
                    yield f"{_name(deployment)}: {probe} asks port {port}, the container has {sorted(ports)}"
        for service in of_kind(objects, "Service"):
            if service["spec"].get("selector", {}).items() <= _labels(deployment).items():
                for entry in service["spec"]["ports"]:
                    if entry["targetPort"] not in known:
                        yield f"{_name(service)}: sends to port {entry['targetPort']}, {_name(deployment)} has none"


def _selectors(objects: list[Object]) -> Iterator[str]:
    """Nothing selects air."""
    pods = [_labels(one) for one in of_kind(objects, "Deployment")]
    for deployment in of_kind(objects, "Deployment"):
        if not _selects(deployment["spec"].get("selector"), _labels(deployment)):
            yield f"{_name(deployment)}: its selector does not match its own pods"
    for service in of_kind(objects, "Service"):
        wanted = service["spec"].get("selector", {})
        if not wanted or not any(wanted.items() <= labels.items() for labels in pods):
            yield f"{_name(service)}: selects no pod"
    for budget in of_kind(objects, "PodDisruptionBudget"):
        if not any(_selects(budget["spec"].get("selector"), labels) for labels in pods):
            yield f"{_name(budget)}: covers no pod"


def _targets(objects: list[Object]) -> Iterator[str]:
    """Scalers and routes name objects that are there."""
    deployments = {one["metadata"]["name"] for one in of_kind(objects, "Deployment")}
    services = {one["metadata"]["name"]: one for one in of_kind(objects, "Service")}
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        for one in of_kind(objects, kind):
            if (target := one["spec"]["scaleTargetRef"]["name"]) not in deployments:
                yield f"{_name(one)}: scales {target}, which is not there"
    for kind in ("HTTPRoute", "GRPCRoute"):
        for one in of_kind(objects, kind):
            for back in (b for rule in one["spec"]["rules"] for b in rule.get("backendRefs", [])):
                service = services.get(back["name"])
                ports = [port["port"] for port in service["spec"]["ports"]] if service else []
                if back["port"] not in ports:
                    yield f"{_name(one)}: sends to {back['name']}:{back['port']}, which is not there"


def _resources(objects: list[Object]) -> Iterator[str]:
    for deployment in of_kind(objects, "Deployment"):
        for container in _containers(deployment):
            given = container.get("resources", {})
            requests, limits = given.get("requests", {}), given.get("limits", {})
            where = f"{_name(deployment)}: container {container['name']}"
            if "memory" not in limits or not {"cpu", "memory"} <= requests.keys():
                yield f"{where}: expected requests for cpu and memory and a limit for memory"
            for what in sorted(requests.keys() & limits.keys()):
                if quantity(requests[what]) > quantity(limits[what]):
                    yield f"{where}: requests {what} {requests[what]}, more than its limit {limits[what]}"


def _images(objects: list[Object]) -> Iterator[str]:
    for deployment in of_kind(objects, "Deployment"):
        for container in _containers(deployment):
            image: str = container["image"]
            tag = image.rpartition("/")[2].partition(":")[2]
            if "@sha256:" not in image and tag in ("", "latest"):
                yield f"{_name(deployment)}: image {image} is not pinned by tag or digest"


def _mounts(objects: list[Object]) -> Iterator[str]:
    for deployment in of_kind(objects, "Deployment"):
        volumes = {volume["name"] for volume in _pod(deployment).get("volumes", [])}
        mounted = {m["name"] for c in _containers(deployment) for m in c.get("volumeMounts", [])}
        for name in sorted(mounted ^ volumes):
            what = "mounted and not there" if name in mounted else "never mounted"
            yield f"{_name(deployment)}: volume {name} is {what}"


def _room(objects: list[Object]) -> Iterator[str]:
    """Full volumes do not get the pod evicted: the limit of its disk covers them."""
    for deployment in of_kind(objects, "Deployment"):
        empty = [volume["emptyDir"] for volume in _pod(deployment).get("volumes", []) if volume.get("emptyDir")]
        volumes = sum(quantity(one.get("sizeLimit", 0)) for one in empty if one.get("medium") != "Memory")
        given = [c.get("resources", {}).get("limits", {}) for c in _pod(deployment)["containers"]]
        limits = [quantity(one["ephemeral-storage"]) for one in given if "ephemeral-storage" in one]
        if limits and sum(limits) < volumes:
            mib = [round(number / 2**20) for number in (volumes, sum(limits))]
            yield f"{_name(deployment)}: its volumes hold {mib[0]} MiB, its limit of ephemeral-storage is {mib[1]} MiB"


def _hardened(objects: list[Object]) -> Iterator[str]:
    for deployment in of_kind(objects, "Deployment"):
        pod = _pod(deployment)
        context = pod.get("securityContext", {})
        if not context.get("runAsNonRoot") or context.get("runAsUser", 0) < 10_000:
            yield f"{_name(deployment)}: must run as a user of 10000 or above"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{_name(deployment)}: has no seccomp profile"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{_name(deployment)}: carries a token of the cluster"
        for container in _containers(deployment):
            own = container.get("securityContext", {})
            closed = own.get("readOnlyRootFilesystem") and own.get("allowPrivilegeEscalation") is False
            if not closed or own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{_name(deployment)}: container {container['name']} is not hardened"


def _companions(objects: list[Object]) -> Iterator[str]:
    """Every Deployment has a budget, a network policy and a spread over nodes."""
    for deployment in of_kind(objects, "Deployment"):
        labels = _labels(deployment)
        for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
            if not any(_selects(one["spec"].get(field), labels) for one in of_kind(objects, kind)):
                yield f"{_name(deployment)}: no {kind} covers its pods"
        spread = _pod(deployment).get("topologySpreadConstraints", [])
        if not spread or not all(_selects(one.get("labelSelector"), labels) for one in spread):
            yield f"{_name(deployment)}: its pods are not spread over nodes"


def _drains(objects: list[Object]) -> Iterator[str]:
    """The grace period covers preStop, the longest request and the drain."""
    configs = {one["metadata"]["name"]: one["data"] for one in of_kind(objects, "ConfigMap") if "data" in one}
    for deployment in of_kind(objects, "Deployment"):
        for container in _pod(deployment)["containers"]:
            data: dict[str, str] = {}
            for source in container.get("envFrom", []):
                data |= configs.get(source.get("configMapRef", {}).get("name", ""), {})
            if not data:
                yield f"{_name(deployment)}: its settings are not there"
                continue
            pause = float(container["lifecycle"]["preStop"]["exec"]["command"][-1])
            longest = float(data["PRESSROOM_REQUEST_TIMEOUT_MS"]) / 1000
            needed = pause + longest + float(data["PRESSROOM_DRAIN_SECONDS"])
            grace = _pod(deployment)["terminationGracePeriodSeconds"]
            if grace <= needed:
                yield f"{_name(deployment)}: is killed after {grace} s, while {needed:.0f} s may be needed"


Rule = Callable[[list[Object]], Iterator[str]]
_RULES: tuple[Rule, ...] = (
    _ports, _selectors, _targets, _resources, _images, _mounts, _room, _hardened, _companions, _drains,
)  # fmt: skip
