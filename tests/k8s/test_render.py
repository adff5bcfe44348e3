"""`pressroom k8s render`: values in, checked manifests out; a value that cannot be is refused by name."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from manifests import K8S, Object, find
from typer.testing import CliRunner

from export.errors import OptionError
from pressroom.cli import app
from pressroom.k8s_checks import of_kind
from pressroom.k8s_render import build, render, write_overlay
from pressroom.k8s_values import Values, read_values

EXAMPLE = K8S / "values.example.yaml"
VALUES: Object = yaml.safe_load(EXAMPLE.read_text())
SCHEMA: Object = json.loads((K8S / "values.schema.json").read_text())
DIGEST = "sha256:" + "ab" * 32


def changed(**changes: Any) -> Values:
    return Values.model_validate(VALUES | changes)


@pytest.mark.needs("kubectl")
def test_names_images_models_and_keys_are_filled_in() -> None:
    family = {"models": [f"card-etth1:1@{DIGEST}"], "replicas": 3, "memory": "500Mi", "memory_limit": "1Gi", "cpu": "2"}
    family |= {"settings": {"threads": 2, "access_log": "all"}, "store": "3Gi"}
    objects = render(
        changed(
            image=f"registry.test/p@{DIGEST}",
            artifacts="registry.test:5000/a:7",
            keys_secret="team-keys",
            namespace="prod",
            families={"forecast": family},
            components=[],
        )
    )
    assert {one["metadata"]["namespace"] for one in objects} == {"prod"}
    deployment = find(objects, "Deployment", "pressroom-forecast")
    pod = deployment["spec"]["template"]["spec"]
    (server,), (copier,) = pod["containers"], pod["initContainers"]
    assert (server["image"], copier["image"]) == (f"registry.test/p@{DIGEST}", "registry.test:5000/a:7")
    assert deployment["spec"]["replicas"] == 3
    assert server["resources"]["requests"] | server["resources"]["limits"] == {
        "cpu": "2", "memory": "1Gi", "ephemeral-storage": "3584Mi",
    }  # fmt: skip
    assert server["resources"]["requests"]["memory"] == "500Mi"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["keys"]["secret"]["secretName"] == "team-keys"
    assert volumes["store"]["emptyDir"]["sizeLimit"] == "3Gi"
    (config,) = of_kind(objects, "ConfigMap")
    wanted = {"PRESSROOM_MODELS": family["models"][0], "PRESSROOM_THREADS": "2", "PRESSROOM_ACCESS_LOG": "all"}
    assert config["data"].items() >= wanted.items()


@pytest.mark.needs("kubectl")
def test_only_what_is_served_is_scaled_and_routed() -> None:
    objects = render(read_values(EXAMPLE))
    names = {"pressroom-forecast", "pressroom-llm"}
    assert {one["metadata"]["name"] for one in of_kind(objects, "Deployment")} == names
    scalers = {
        one["metadata"]["name"]: one["spec"]["maxReplicas"] for one in of_kind(objects, "HorizontalPodAutoscaler")
    }
    assert scalers == {"pressroom-forecast": 6, "pressroom-llm": 10}
    (route,) = of_kind(objects, "HTTPRoute")
    assert route["spec"]["hostnames"] == ["models.example.com"]
    assert route["spec"]["parentRefs"] == [{"name": "public"}]
    assert {back["name"] for rule in route["spec"]["rules"] for back in rule["backendRefs"]} == names


@pytest.mark.needs("kubectl")
def test_the_gateway_answers_for_every_family() -> None:
    objects = render(changed(families={"gateway": {"models": ["card-etth1:1"]}}, components=["routes"]))
    (route,) = of_kind(objects, "HTTPRoute")
    paths = [match["path"]["value"] for rule in route["spec"]["rules"] for match in rule["matches"]]
    assert {"/v1/forecast", "/v1/completions", "/v1/detect", "/v1/text/detect", "/v1/watermark", "/v1/ehr"} <= {*paths}
    assert {b["name"] for rule in route["spec"]["rules"] for b in rule["backendRefs"]} == {"pressroom-gateway"}


@pytest.mark.needs("kubectl")
def test_the_gpu_overlay_keeps_what_is_asked_for() -> None:
    objects = render(changed(overlay="gpu", families={"llm": {"models": ["smollm2:1"]}}, components=[]))
    assert {one["metadata"]["name"] for one in of_kind(objects, "Deployment")} == {"pressroom-llm"}
    assert len(of_kind(objects, "Service")) == 2


@pytest.mark.needs("kubectl")
def test_the_overlay_builds_by_kustomize_alone() -> None:
    values = read_values(EXAMPLE)
    folder = K8S / ".test-overlay"
    folder.mkdir(exist_ok=True)
    try:
        write_overlay(values, folder)
        assert build(folder) == render(values)
    finally:
        shutil.rmtree(folder)


@pytest.mark.needs("kubectl")
def test_the_command_prints_what_kubectl_takes() -> None:
    done = CliRunner().invoke(app, ["k8s", "render", str(EXAMPLE)])
    assert done.exit_code == 0
    assert list(yaml.safe_load_all(done.stdout)) == render(read_values(EXAMPLE))
    as_json = CliRunner().invoke(app, ["k8s", "render", str(EXAMPLE), "--json"])
    assert json.loads(as_json.stdout) == render(read_values(EXAMPLE))


def test_the_schema_accepts_the_example() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert list(Draft202012Validator(SCHEMA).iter_errors(VALUES)) == []


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"imagee": "x:1"}, "imagee: Extra inputs are not permitted"),
    "no namespace": ({"namespace": None}, "namespace: Input should be a valid string"),
    "namespace": ({"namespace": "Prod_1"}, "namespace: String should match pattern"),
    "image without a tag": ({"image": "registry/pressroom"}, "image: String should match pattern"),
    "short digest": ({"image": "registry/pressroom@sha256:12"}, "image: String should match pattern"),
    "no family": ({"families": {}}, "families: Dictionary should have at least 1 item"),
    "unknown family": ({"families": {"vision": {"models": ["a:1"]}}}, "families.vision"),
    "no models": ({"families": {"llm": {"models": []}}}, "families.llm.models: List should have at least 1 item"),
    "memory": (
        {"families": {"llm": {"models": ["a:1"], "memory": "1 GB"}}},
        "families.llm.memory: String should match",
    ),
    "replicas": ({"families": {"llm": {"models": ["a:1"], "replicas": -1}}}, "families.llm.replicas: Input should be"),
    "component": ({"components": ["istio"]}, "components.0: Input should be"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_values_that_cannot_be_are_refused_by_schema_and_program(case: str, tmp_path: Path) -> None:
    change, words = BROKEN[case]
    document = copy.deepcopy(VALUES) | change
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(document))
    assert list(Draft202012Validator(SCHEMA).iter_errors(document)), "the schema refuses it, too"
    with pytest.raises(OptionError) as refused:
        read_values(file)
    assert words in refused.value.message
    assert refused.value.message.startswith("values.yaml: ")
    assert str(tmp_path) not in refused.value.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"components": ["hpa", "keda"]}, "hpa and keda would both scale"),
        ({"components": ["routes"], "gateway": None}, "routes needs hostname and gateway"),
        ({"components": ["canary"], "families": {"llm": {"models": ["a:1"]}}}, "a second forecast Deployment"),
        ({"overlay": "gpu", "families": {"ehr": {"models": ["a:1"]}}}, "ehr has no GPU overlay"),
    ],
)
def test_values_that_contradict_each_other_are_refused(change: Object, words: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(VALUES | change))
    with pytest.raises(OptionError, match=words):
        read_values(file)


@pytest.mark.parametrize(("content", "words"), [("a: [", "is no YAML"), ("- a", "the file: Input should be")])
def test_files_that_hold_no_values_are_refused(content: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(content)
    done = CliRunner().invoke(app, ["k8s", "render", str(file)])
    assert isinstance(done.exception, OptionError)
    assert words in done.exception.message
    missing = CliRunner().invoke(app, ["k8s", "render", str(tmp_path / "none.yaml")])
    assert isinstance(missing.exception, OptionError)
