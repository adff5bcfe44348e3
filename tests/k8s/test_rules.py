"""The rules find what is broken: one change to sound manifests, one named fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from manifests import Object, built, find

from pressroom.k8s_checks import faults, quantity

pytestmark = pytest.mark.needs("kubectl")
NAME = "pressroom-forecast"
Change = Callable[[list[Object]], Any]


def pod(objects: list[Object]) -> Object:
    spec: Object = find(objects, "Deployment", NAME)["spec"]["template"]["spec"]
    return spec


def server(objects: list[Object]) -> Object:
    container: Object = pod(objects)["containers"][0]
    return container


def drop(objects: list[Object], kind: str, name: str = NAME) -> None:
    objects.remove(find(objects, kind, name))


def settings(objects: list[Object]) -> dict[str, str]:
    name = server(objects)["envFrom"][0]["configMapRef"]["name"]
    data: dict[str, str] = find(objects, "ConfigMap", name)["data"]
    return data


BROKEN: dict[str, tuple[Change, str]] = {
    "probe port": (lambda o: server(o)["readinessProbe"]["httpGet"].update(port="web"), "readinessProbe asks port web"),
    "grpc probe": (lambda o: server(o).update(livenessProbe={"grpc": {"port": 9}}), "livenessProbe asks port 9"),
    "service port": (lambda o: find(o, "Service", NAME)["spec"]["ports"][0].update(targetPort="web"), "port web"),
    "no memory limit": (lambda o: server(o)["resources"].pop("limits"), "a limit for memory"),
    "no cpu request": (lambda o: server(o)["resources"]["requests"].pop("cpu"), "expected requests for cpu"),
    "request above limit": (lambda o: server(o)["resources"]["requests"].update(memory="9Gi"), "requests memory 9Gi"),
    "latest": (lambda o: server(o).update(image="registry/pressroom:latest"), "is not pinned"),
    "no tag": (lambda o: server(o).update(image="registry:5000/pressroom"), "is not pinned"),
    "root": (lambda o: pod(o)["securityContext"].update(runAsUser=0), "user of 10000"),
    "low user": (lambda o: pod(o)["securityContext"].update(runAsUser=1000), "user of 10000"),
    "seccomp": (lambda o: pod(o)["securityContext"].pop("seccompProfile"), "no seccomp profile"),
    "token": (lambda o: pod(o).pop("automountServiceAccountToken"), "carries a token"),
    "writable root": (lambda o: server(o)["securityContext"].update(readOnlyRootFilesystem=False), "not hardened"),
    "capabilities": (lambda o: server(o)["securityContext"].update(capabilities={"add": ["NET_RAW"]}), "not hardened"),
    "selector": (
        lambda o: find(o, "Deployment", NAME)["spec"]["selector"]["matchLabels"].update(extra="x"),
        "does not match its own pods",
    ),
    "service selects air": (lambda o: find(o, "Service", NAME)["spec"].update(selector={"a": "b"}), "selects no pod"),
    "no budget": (lambda o: drop(o, "PodDisruptionBudget"), "no PodDisruptionBudget covers"),
    "empty budget": (lambda o: find(o, "PodDisruptionBudget", NAME)["spec"].update(selector={}), "covers no pod"),
    "no policy": (lambda o: drop(o, "NetworkPolicy"), "no NetworkPolicy covers"),
    "no spread": (lambda o: pod(o).pop("topologySpreadConstraints"), "not spread over nodes"),
    "volume": (lambda o: pod(o)["volumes"].pop(), "mounted and not there"),
    "volume above the disk": (
        lambda o: pod(o)["volumes"][0].update(emptyDir={"sizeLimit": "2Gi"}),
        "its volumes hold 2240 MiB, its limit of ephemeral-storage is 1536 MiB",
    ),
    "mount": (lambda o: server(o)["volumeMounts"].pop(), "never mounted"),
    "grace": (lambda o: pod(o).update(terminationGracePeriodSeconds=30), "is killed after 30 s, while 40 s may"),
    "longer requests": (lambda o: settings(o).update(PRESSROOM_REQUEST_TIMEOUT_MS="60000"), "while 85 s may"),
    "no settings": (lambda o: server(o)["envFrom"].clear(), "its settings are not there"),
    "scaler": (
        lambda o: find(o, "HorizontalPodAutoscaler", NAME)["spec"]["scaleTargetRef"].update(name="gone"),
        "scales gone",
    ),
    "route": (lambda o: drop(o, "Service"), "HTTPRoute pressroom: sends to pressroom-forecast:3000"),
    "twice": (lambda o: o.append(find(o, "Service", NAME)), "is there twice"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_one_change_is_one_named_fault(change: str) -> None:
    objects = json.loads(json.dumps(built("cpu", "hpa", "routes")))
    assert faults(objects) == []
    break_it, words = BROKEN[change]
    break_it(objects)
    found = faults(objects)
    assert any(words in fault for fault in found), found
    assert all(NAME in fault or "HTTPRoute" in fault or "GRPCRoute" in fault for fault in found), found


@pytest.mark.parametrize(
    ("text", "number"), [("500m", 0.5), ("2", 2), ("384Mi", 384 * 2**20), ("1.5Gi", 1.5 * 2**30), (2, 2), ("1G", 1e9)]
)
def test_quantities(text: str | int, number: float) -> None:
    assert quantity(text) == number
