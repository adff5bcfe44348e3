"""Manifests parse, are valid, fit together, and are what an auditor's scanner accepts: rungs 1 and 2 of the ladder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from manifests import COMPONENTS, EXCLUSIVE, K8S, OVERLAYS, Object, built, everything, files, find, walk
from programs import CHECKOV, CRDS

from pressroom.k8s_checks import faults, of_kind
from pressroom.k8s_values import FAMILIES
from services.core.settings import PREFIX, load_settings

pytestmark = pytest.mark.needs("kubectl")
VERSIONS = ("1.34", "1.37")  # of Kubernetes
NOT_ITS_OWN = ("keda.sh/", "gateway.networking.k8s.io/", "monitoring.coreos.com/", "serving.kserve.io/")
# What checkov asks for and we do not do, each with its reason.
ACCEPTED = {
    "CKV_K8S_11": "CPU limits: throttling would show in the p99",
    "CKV_K8S_15": "pull policy Always: images are pinned, pulling them again gives the same",
    "CKV_K8S_21": "namespace default: it is named when the manifests are applied or rendered",
    "CKV_K8S_43": "digests of images: they are the cluster's, `pressroom k8s render` and kustomize set them",
}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_keeps_the_rules(overlay: str) -> None:
    assert faults(built(overlay)) == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_can_be_added(component: str) -> None:
    alone = built("cpu", component)
    assert faults(alone) == []
    assert alone != built("cpu")


@pytest.mark.parametrize("left_out", sorted(EXCLUSIVE))
def test_all_components_go_together(left_out: str) -> None:
    assert faults(built("cpu", *(c for c in COMPONENTS if c != left_out))) == []


def test_the_cpu_overlay_serves_every_family() -> None:
    names = {one["metadata"]["name"] for one in of_kind(built("cpu"), "Deployment")}
    assert names == {f"pressroom-{family}" for family in FAMILIES if family != "gateway"}
    for one in of_kind(built("cpu"), "Deployment"):
        (server,) = one["spec"]["template"]["spec"]["containers"]
        assert [f"pressroom-{server['args'][0]}"] == [one["metadata"]["name"]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_are_real_valid_and_safe(overlay: str) -> None:
    for config in of_kind(built(overlay), "ConfigMap"):
        loaded = load_settings(environment=config["data"])
        given = {name for name, origin in loaded.origins.items() if origin == "environment"}
        assert given == {key.removeprefix(PREFIX).lower() for key in config["data"]}
        assert (loaded.values.host, loaded.values.insecure, loaded.values.keys_file) == (
            "0.0.0.0", False, "/keys/keys.toml",
        )  # fmt: skip
        assert all(":" in entry for entry in loaded.values.model_list()), "exact versions"


def test_a_changed_setting_rolls_the_pods() -> None:
    """The ConfigMap's name carries a hash of its content, and the Deployment names it."""
    for deployment in of_kind(built("cpu"), "Deployment"):
        (source,) = deployment["spec"]["template"]["spec"]["containers"][0]["envFrom"]
        name = source["configMapRef"]["name"]
        find(built("cpu"), "ConfigMap", name)
        assert name.count("-") > deployment["metadata"]["name"].count("-") + 1


def test_the_image_volume_takes_the_place_of_the_copy() -> None:
    deployment = find(built("cpu", "oci-volume"), "Deployment", "pressroom-forecast")
    pod = deployment["spec"]["template"]["spec"]
    assert not pod.get("initContainers")
    (store,) = [volume for volume in pod["volumes"] if volume["name"] == "store"]
    assert set(store) == {"name", "image"}


def test_gpu_pods_ask_for_a_device_and_text_comes_from_vllm() -> None:
    for deployment in of_kind(built("gpu"), "Deployment"):
        (server,) = deployment["spec"]["template"]["spec"]["containers"]
        assert server["resources"]["limits"]["nvidia.com/gpu"] == "1"
    (config,) = [c for c in of_kind(built("gpu"), "ConfigMap") if "-llm-" in c["metadata"]["name"]]
    assert config["data"]["PRESSROOM_LLM_BACKEND"] == "vllm"


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_schemas_accept_everything(version: str, tmp_path: Path) -> None:
    """Strict: an unknown field is a fault, and so is a warning, but for kinds other projects define."""
    for number, objects in enumerate(everything()):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump_all(_core(objects)))
    assert _validate(version, tmp_path) == ""


@pytest.mark.parametrize(
    "change",
    [{"replicas": "two"}, {"replica": 2}, {"selector": None}, {"template": {"spec": {"containers": "one"}}}],
    ids=["type", "unknown field", "missing", "nested type"],
)
def test_kubernetes_schemas_refuse_what_is_broken(change: Object, tmp_path: Path) -> None:
    broken = json.loads(json.dumps(find(built("cpu"), "Deployment", "pressroom-forecast")))
    broken["spec"] |= change
    broken["spec"] = {name: value for name, value in broken["spec"].items() if value is not None}
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(broken))
    assert _validate(VERSIONS[-1], tmp_path) != ""


def test_an_api_that_was_removed_is_refused(tmp_path: Path) -> None:
    scaler = find(built("cpu", "hpa"), "HorizontalPodAutoscaler", "pressroom-forecast")
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(scaler | {"apiVersion": "autoscaling/v2beta2"}))
    assert "WARN" in _validate(VERSIONS[-1], tmp_path)


@pytest.mark.needs("node")
def test_published_models_accept_the_custom_resources() -> None:
    custom = [one for objects in everything() for one in objects if one["apiVersion"].startswith(NOT_ITS_OWN)]
    kinds = {one["kind"] for one in custom}
    assert kinds >= {"ScaledObject", "HTTPRoute", "GRPCRoute", "ServiceMonitor", "PrometheusRule", "ServingRuntime"}
    done = _models(custom)
    assert done.returncode == 0, done.stdout


@pytest.mark.needs("node")
@pytest.mark.parametrize(
    ("component", "kind", "name", "path", "value"),
    [
        ("keda", "ScaledObject", "pressroom-llm", ("spec", "maxReplicaCount"), "ten"),
        ("keda", "ScaledObject", "pressroom-llm", ("spec", "triggers"), None),
        ("routes", "HTTPRoute", "pressroom", ("spec", "rules", 0, "backendRefs", 0, "port"), 0),
        ("routes", "HTTPRoute", "pressroom", ("spec", "rules", 0, "matches", 0, "path", "type"), "Begins"),
        ("routes", "GRPCRoute", "pressroom", ("spec", "hostnames", 0), "no host"),
        ("prometheus", "ServiceMonitor", "pressroom", ("spec", "endpoints", 0, "scrapeTimeout"), 5),
        ("prometheus", "PrometheusRule", "pressroom", ("spec", "groups", 0, "rules", 0, "expr"), None),
    ],
)
def test_published_models_refuse_what_is_broken(
    component: str, kind: str, name: str, path: tuple[str | int, ...], value: object
) -> None:
    broken = json.loads(json.dumps(find(built("cpu", component), kind, name)))
    node = broken
    for step in path[:-1]:
        node = node[step]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    done = _models([broken])
    assert (done.returncode, done.stdout.startswith(f"{kind} {name}: ")) == (1, True), done.stdout


@pytest.mark.needs("checkov")
def test_the_scanner_finds_nothing_but_what_is_accepted(tmp_path: Path) -> None:
    for number, overlay in enumerate(OVERLAYS):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump_all(built(overlay)))
    command: list[str | Path] = [CHECKOV, "--skip-download", "--framework", "kubernetes", "--directory", tmp_path]
    done = subprocess.run(
        [*command, "--output", "json", "--quiet"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    results = json.loads(done.stdout)
    failed = {check["check_id"]: check["check_name"] for check in results["results"]["failed_checks"]}
    assert results["summary"]["passed"] + results["summary"]["failed"] > 500
    assert failed.keys() == ACCEPTED.keys(), failed


def test_every_file_is_used() -> None:
    used = set()
    for kustomization in (path for path in files() if path.name == "kustomization.yaml"):
        whole = yaml.safe_load(kustomization.read_text())
        entries = [*whole.get("resources", ()), *(p["path"] for p in whole.get("patches", ()) if "path" in p)]
        used |= {(kustomization.parent / entry).resolve() for entry in entries}
        for generator in whole.get("configMapGenerator", ()):
            named = [*generator.get("envs", ()), *(f.partition("=")[2] or f for f in generator.get("files", ()))]
            used |= {kustomization.parent / name for name in named}
    present = {path for path in K8S.rglob("*") if path.is_file() and path.parent != K8S}
    present = {path for path in present if path.name != "kustomization.yaml" and ".test-" not in str(path)}
    assert present <= used, sorted(map(str, present - used))


def test_no_registry_is_written_into_the_manifests() -> None:
    for path in files():
        if path.parent == K8S:
            continue  # the example's values
        documents = yaml.safe_load_all(path.read_text())
        images = [n["image"] for found in documents for n in walk(found) if isinstance(n.get("image"), str)]
        assert all("/" not in image for image in images), path.name


def _core(objects: list[Object]) -> list[Object]:
    return [one for one in objects if not one["apiVersion"].startswith(NOT_ITS_OWN)]


def _validate(version: str, folder: Path) -> str:
    """What kubernetes-validate complains of, warnings included."""
    command: list[str | Path] = [Path(sys.executable).parent / "kubernetes-validate", "--strict", "-k", version]
    done = subprocess.run([*command, *sorted(folder.iterdir())], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    complaints = [line for line in lines if not line.startswith("INFO")]
    assert done.returncode == 0 or complaints
    return "\n".join(complaints)


def _models(objects: list[Object]) -> subprocess.CompletedProcess[str]:
    command = ["node", str(CRDS / "validate.mjs")]
    return subprocess.run(command, input=json.dumps(objects), capture_output=True, text=True, check=False)
