"""The values file of `pressroom k8s render`: what differs from one cluster to the next, and nothing else.

Its JSON schema is k8s/values.schema.json; editors that know JSON schemas complete and check the file as it is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from export.errors import OptionError

FAMILIES = ("forecast", "llm", "detect", "text-detect", "watermark", "ehr", "gateway")
Family = Literal["forecast", "llm", "detect", "text-detect", "watermark", "ehr", "gateway"]
Component = Literal[
    "canary",
    "default-deny",
    "grafana",
    "grpc-probes",
    "hpa",
    "keda",
    "kserve",
    "networkpolicy-egress",
    "oci-volume",
    "priority-class",
    "prometheus",
    "routes",
]
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_IMAGE = r"^[a-z0-9][^\s@]*(:[\w.-]+|@sha256:[0-9a-f]{64})$"
_QUANTITY = r"^\d+(\.\d+)?(m|Ki|Mi|Gi|Ti|k|M|G|T)?$"

Name = Annotated[str, Field(pattern=_NAME, max_length=63)]
Image = Annotated[str, Field(pattern=_IMAGE, description="NAME:TAG or, better, NAME@sha256:...")]
Quantity = Annotated[str, Field(pattern=_QUANTITY, description="a Kubernetes quantity: 500m, 2, 384Mi, 2Gi")]


class _Values(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FamilyValues(_Values):
    """One family's Deployment."""

    models: list[str] = Field(
        min_length=1, description="artifacts: name:version or, better, name:version@sha256:... (`pressroom models`)"
    )
    replicas: int | None = Field(None, ge=0, description="pods; leave out where hpa or keda decides")
    max_replicas: int | None = Field(None, ge=1, description="most pods the autoscaler may start")
    cpu: Quantity | None = Field(None, description="CPU request of a pod; none: as measured for the bundled models")
    memory: Quantity | None = Field(None, description="memory request of a pod")
    memory_limit: Quantity | None = Field(None, description="memory limit of a pod")
    store: Quantity | None = Field(None, description="room for the artifacts")
    settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="further settings of the server by name: docs/settings.md"
    )


class Values(_Values):
    """The whole file."""

    namespace: Name = Field(description="namespace of every object")
    image: Image = Field(description="the server's image")
    artifacts: Image = Field(description="the artifacts' image")
    keys_secret: Name = Field("pressroom-keys", description="Secret with keys.toml (`pressroom key`)")
    hostname: str | None = Field(None, description="host name of the routes")
    gateway: Name | None = Field(None, description="Gateway that the routes are attached to")
    overlay: Literal["cpu", "gpu"] = Field("cpu", description="cpu, or gpu: a device a pod, language models on vLLM")
    components: list[Component] = Field(default_factory=list, description="parts of k8s/components to add")
    families: dict[Family, FamilyValues] = Field(min_length=1, description="what is served")


def read_values(path: Path) -> Values:
    """Raises OptionError, which names the field, what came and what was expected."""
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise OptionError(
            f"{path.name}: {fault.strerror}", "name a file of values, see k8s/values.example.yaml"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise OptionError(
            f"{path.name} is no YAML: {str(fault).splitlines()[0]}", "see k8s/values.example.yaml"
        ) from None
    try:
        values = Values.model_validate(document)
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        got = "" if first["type"] == "missing" else f", got {str(first['input'])[:60]!r}"
        raise OptionError(
            f"{path.name}: {place}: {first['msg']}{got}", "k8s/values.schema.json lists the fields"
        ) from None
    _check(values, path.name)
    return values


def _check(values: Values, file: str) -> None:
    if "hpa" in values.components and "keda" in values.components:
        raise OptionError(f"{file}: components: hpa and keda would both scale the Deployments", "leave one out")
    if "routes" in values.components and not (values.hostname and values.gateway):
        raise OptionError(f"{file}: components: routes needs hostname and gateway", "add both")
    if "canary" in values.components and "forecast" not in values.families:
        raise OptionError(f"{file}: components: canary is a second forecast Deployment", "add the family forecast")
    if values.overlay == "gpu" and (foreign := sorted(set(values.families) - {"forecast", "llm"})):
        raise OptionError(f"{file}: families: {foreign[0]} has no GPU overlay", "render it with overlay: cpu")
