"""Definitions of the custom resources that k8s/components use, as far as these use them.

The projects' own definitions are in no package that could be installed here. Types, required fields, enumerations and
ranges are copied from their published models, which test_manifests.py holds the manifests against in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

TEXT: Object = {"type": "string"}
WORD: Object = {"type": "string", "minLength": 1, "maxLength": 253}
WHOLE: Object = {"type": "integer", "format": "int32", "minimum": 0}
TRUTH: Object = {"type": "boolean"}
PORT: Object = {"type": "integer", "minimum": 1, "maximum": 65535}
SECONDS: Object = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h))+$"}
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXTS: Object = {"type": "object", "additionalProperties": TEXT}
SELECTOR: Object = {
    "type": "object",
    "properties": {"matchLabels": TEXTS, "matchExpressions": {"type": "array", "items": ANYTHING}},
}


def thing(*required: str, **properties: Object) -> Object:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def many(items: Object, **more: Any) -> Object:
    return {"type": "array", "items": items, **more}


def choice(*words: str) -> Object:
    return {"type": "string", "enum": list(words)}


_BACK = thing("name", name=WORD, port=PORT, weight={**WHOLE, "maximum": 1_000_000}, namespace=WORD)
_HEADER = thing("name", "value", name=WORD, value=TEXT, type=choice("Exact", "RegularExpression"))
_HOST = {**WORD, "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}


def _route(match: Object) -> Object:
    rule = thing(
        matches=many(match, maxItems=64), backendRefs=many(_BACK, maxItems=16), timeouts=thing(request=SECONDS)
    )
    return thing(parentRefs=many(thing("name", name=WORD)), hostnames=many(_HOST, maxItems=16), rules=many(rule))


_PATH = thing(type=choice("Exact", "PathPrefix", "RegularExpression"), value={**TEXT, "maxLength": 1024})
_METHOD = thing(type=choice("Exact", "RegularExpression"), service=WORD, method=WORD)
_TRIGGER = thing("type", "metadata", type=TEXT, metadata=TEXTS, name=TEXT)
_ENDPOINT = thing(
    port=TEXT,
    path=TEXT,
    interval=SECONDS,
    scrapeTimeout=SECONDS,
    authorization=thing(type=TEXT, credentials=thing("key", key=TEXT, name=TEXT)),
    relabelings=many(thing(sourceLabels=many(TEXT), targetLabel=TEXT)),
)
_RULE = thing("expr", alert=TEXT, record=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": SECONDS})
_GROUP = thing("name", name=WORD, interval=SECONDS, rules=many(_RULE))
_MODEL = thing(
    modelFormat=thing("name", name=TEXT, version=TEXT),
    runtime=TEXT,
    protocolVersion=TEXT,
    storageUri=TEXT,
    args=many(TEXT),
    env=many(ANYTHING),
    volumeMounts=many(ANYTHING),
)

# (group, version, kind, plural): the schema of `spec`
DEFINITIONS: dict[tuple[str, str, str, str], Object] = {
    ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"): _route(
        thing(path=_PATH, headers=many(_HEADER), method=TEXT)
    ),
    ("gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes"): _route(
        thing(method=_METHOD, headers=many(_HEADER))
    ),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"): thing(
        "scaleTargetRef",
        "triggers",
        scaleTargetRef=thing("name", name=TEXT, kind=TEXT, apiVersion=TEXT),
        minReplicaCount=WHOLE,
        maxReplicaCount=WHOLE,
        pollingInterval=WHOLE,
        cooldownPeriod=WHOLE,
        fallback=thing("failureThreshold", "replicas", failureThreshold=WHOLE, replicas=WHOLE),
        advanced=thing(horizontalPodAutoscalerConfig=ANYTHING),
        triggers=many(_TRIGGER),
    ),
    ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"): thing(
        "endpoints", "selector", endpoints=many(_ENDPOINT), selector=SELECTOR, targetLabels=many(TEXT)
    ),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"): thing(groups=many(_GROUP)),
    ("serving.kserve.io", "v1alpha1", "ServingRuntime", "servingruntimes"): thing(
        "containers",
        supportedModelFormats=many(thing("name", name=TEXT, version=TEXT, autoSelect=TRUTH)),
        protocolVersions=many(TEXT),
        multiModel=TRUTH,
        containers=many({**ANYTHING, "required": ["name"], "properties": {"name": TEXT}}),
        volumes=many({**ANYTHING, "required": ["name"], "properties": {"name": TEXT}}),
    ),
    ("serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices"): thing(
        "predictor", predictor=thing(minReplicas=WHOLE, maxReplicas=WHOLE, model=_MODEL)
    ),
}


def definitions() -> Iterator[Object]:
    """CustomResourceDefinitions to apply."""
    for (group, version, kind, plural), spec in DEFINITIONS.items():
        schema = thing("spec", apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, spec=spec)
        served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.{group}",
                # groups below k8s.io say that they were reviewed, or were not
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        }
