"""A real API server takes every manifest, and refuses each of a corpus of broken ones (rung 7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from cluster_api import Api, RefusedError
from cluster_crds import DEFINITIONS, definitions
from cluster_files import API
from live_server import eventually
from manifests import COMPONENTS, EXCLUSIVE, OVERLAYS, Object, built, find
from older_api import NOT_THERE, older

pytestmark = [pytest.mark.cluster, pytest.mark.needs("kubectl")]
NAME = "pressroom-forecast"
WITH = sorted(set(COMPONENTS) - NOT_THERE.keys())


@pytest.fixture(scope="module")
def api(running_cluster: Cluster) -> Iterator[Api]:
    """The API of a cluster that knows the custom resources, in a namespace of its own."""
    own = Api(API, running_cluster.files.tokens["admin"], "dry-run")
    for one in [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own.namespace}}, *definitions()]:
        own.apply(one)

    def served() -> bool:
        try:
            return all(own.list(f"{group}/{version}", kind) == [] for group, version, kind, _ in DEFINITIONS)
        except RefusedError:
            return False

    eventually(served, "the definitions are served")
    yield own
    own.close()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_takes_every_overlay(api: Api, overlay: str) -> None:
    for one in built(overlay):
        api.apply(older(one), dry_run=True)


@pytest.mark.parametrize("left_out", sorted(EXCLUSIVE))
def test_the_server_takes_every_component(api: Api, left_out: str) -> None:
    objects = built("cpu", *(name for name in WITH if name != left_out))
    assert len({one["kind"] for one in objects}) > 12
    for one in objects:
        api.apply(older(one), dry_run=True)


def test_a_dry_run_leaves_nothing(api: Api) -> None:
    assert api.list("apps/v1", "Deployment") == []


def container(deployment: Object) -> Object:
    found: Object = pod(deployment)["containers"][0]
    return found


def pod(deployment: Object) -> Object:
    found: Object = deployment["spec"]["template"]["spec"]
    return found


def requests(deployment: Object) -> Object:
    found: Object = container(deployment)["resources"]["requests"]
    return found


Change = Callable[[Object], Any]
# What is broken: the object's kind, what is changed, and words of the server's answer.
BROKEN: dict[str, tuple[str, Change, str]] = {
    "unknown field": ("Deployment", lambda o: o["spec"].update(replica=2), "field not declared in schema"),
    "unknown field of a pod": ("Deployment", lambda o: pod(o).update(grace=5), "field not declared in schema"),
    "type": ("Deployment", lambda o: o["spec"].update(replicas="two"), "replicas"),
    "no selector": ("Deployment", lambda o: o["spec"].pop("selector"), "spec.selector: Required value"),
    "selector": ("Deployment", lambda o: o["spec"]["selector"]["matchLabels"].update(a="b"), "does not match template"),
    "no containers": ("Deployment", lambda o: pod(o).pop("containers"), "containers: Required value"),
    "no image": ("Deployment", lambda o: container(o).pop("image"), "image: Required value"),
    "port": ("Deployment", lambda o: container(o)["ports"][0].update(containerPort=70000), "between 1 and 65535"),
    "port's name": ("Deployment", lambda o: container(o)["ports"][0].update(name="HTTP!"), "must contain only"),
    "two ports of a name": ("Deployment", lambda o: container(o)["ports"][0].update(name="grpc"), "Duplicate value"),
    "probe without a handler": ("Deployment", lambda o: container(o)["livenessProbe"].pop("httpGet"), "handler type"),
    "quantity": ("Deployment", lambda o: requests(o).update(memory="1 GB"), "quantities must match"),
    "request above limit": (
        "Deployment",
        lambda o: requests(o).update(memory="9Gi"),
        "or equal to memory limit",
    ),
    "mount": ("Deployment", lambda o: pod(o)["volumes"].pop(), "volumeMounts[3].name: Not found"),
    "user": ("Deployment", lambda o: pod(o)["securityContext"].update(runAsUser=-1), "runAsUser: Invalid value"),
    "restarts": ("Deployment", lambda o: pod(o).update(restartPolicy="Never"), "supported values"),
    "strategy": ("Deployment", lambda o: o["spec"]["strategy"]["rollingUpdate"].update(maxSurge=0), "may not be 0"),
    "name": ("Deployment", lambda o: o["metadata"].update(name="Press_room"), "RFC 1123"),
    "spread": (
        "Deployment",
        lambda o: pod(o)["topologySpreadConstraints"][0].update(maxSkew=0),
        "must be greater than",
    ),
    "service port": ("Service", lambda o: o["spec"]["ports"][0].update(port=0), "between 1 and 65535"),
    "service type": ("Service", lambda o: o["spec"].update(type="Cluster"), "supported values"),
    "settings": ("ConfigMap", lambda o: o["data"].update(PRESSROOM_PORT=3000), "PRESSROOM_PORT"),
    "budget": ("PodDisruptionBudget", lambda o: o["spec"].update(maxUnavailable=1), "cannot be both set"),
    "policy": ("NetworkPolicy", lambda o: o["spec"].update(policyTypes=["In"]), "supported values"),
    "scaler": ("HorizontalPodAutoscaler", lambda o: o["spec"].update(minReplicas=20), "minReplicas"),
    "scaler without a metric's target": (
        "HorizontalPodAutoscaler",
        lambda o: o["spec"]["metrics"][0]["pods"].pop("target"),
        "target",
    ),
    "weight of a route": (
        "HTTPRoute",
        lambda o: o["spec"]["rules"][0]["backendRefs"][0].update(weight=-1),
        "greater than or equal to 0",
    ),
    "host of a route": ("GRPCRoute", lambda o: o["spec"].update(hostnames=["no host"]), "should match"),
    "monitor": ("ServiceMonitor", lambda o: o["spec"].pop("selector"), "spec.selector: Required value"),
    "alert": ("PrometheusRule", lambda o: o["spec"]["groups"][0]["rules"][0].pop("expr"), "expr: Required value"),
    "KEDA": ("ScaledObject", lambda o: o["spec"].pop("triggers"), "spec.triggers: Required value"),
    "KServe": ("ServingRuntime", lambda o: o["spec"].pop("containers"), "spec.containers: Required value"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_what_is_broken_is_refused(api: Api, change: str) -> None:
    kind, break_it, words = BROKEN[change]
    scaler = "keda" if kind == "ScaledObject" else "hpa"
    objects = [one for one in built("cpu", scaler, "routes", "prometheus", "kserve") if one["kind"] == kind]
    found = [one for one in objects if one["metadata"]["name"].startswith(NAME)] or objects
    one = json.loads(json.dumps(older(found[0])))
    api.apply(one, dry_run=True)
    break_it(one)
    with pytest.raises(RefusedError) as refused:
        api.apply(one, dry_run=True)
    assert refused.value.status in {400, 422, 500}
    assert words in refused.value.message, refused.value.message


def test_kinds_that_it_does_not_know_are_refused(api: Api) -> None:
    scaler = find(built("cpu", "hpa"), "HorizontalPodAutoscaler", NAME)
    with pytest.raises(RefusedError):
        api.apply(scaler | {"apiVersion": "autoscaling/v9"}, dry_run=True)
