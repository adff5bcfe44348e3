"""Our manifests, written for Kubernetes 1.29 and newer, as 1.20 knows them: the newest that Debian has the source of.

Two APIs had their last-but-one names, one field came later, and a port without a protocol could not be applied by the
server. Two components need what 1.20 does not have at all.
"""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]
NOT_THERE = {"oci-volume": "image volumes came with 1.31", "grpc-probes": "gRPC probes came with 1.24"}
_NAMES = {
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "autoscaling/v2beta2",
    ("policy/v1", "PodDisruptionBudget"): "policy/v1beta1",
}


def older(one: Object) -> Object:
    """The same object for 1.20."""
    made = copy.deepcopy(one)
    made["apiVersion"] = _NAMES.get((one["apiVersion"], one["kind"]), one["apiVersion"])
    if one["kind"] == "PodDisruptionBudget":
        made["spec"].pop("unhealthyPodEvictionPolicy", None)  # 1.26
    for port in _ports(made):
        port.setdefault("protocol", "TCP")
    return made


def _ports(one: Object) -> list[Object]:
    """Of a Service, or of a Deployment's containers."""
    spec = one.get("spec", {})
    if one["kind"] == "Service":
        return list(spec["ports"])
    containers = spec["template"]["spec"]["containers"] if one["kind"] == "Deployment" else []
    return [port for container in containers for port in container.get("ports", ())]
