"""The manifests fit together: ports, selectors, settings, probes, files; and they build where kubectl is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from manifests import (
    BASE,
    K8S,
    OVERLAYS,
    base_objects,
    deployment,
    kustomization,
    of_kind,
    pod,
    pod_labels,
    quantity,
    read,
    server,
    settings,
    walk,
)

from services.core.settings import PREFIX, Settings, load_settings

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def test_every_file_of_a_folder_is_listed() -> None:
    for folder in (BASE, *OVERLAYS):
        whole = kustomization(folder)
        listed = {*whole["resources"], *(patch["path"] for patch in whole.get("patches", []))}
        listed |= {env for generator in whole.get("configMapGenerator", []) for env in generator["envs"]}
        present = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
        assert {name for name in listed if not name.startswith("..")} == present, folder.name
        assert all((folder / name).exists() for name in listed), folder.name


def test_objects_are_unique_and_have_a_kind_and_a_name() -> None:
    names = [(found["apiVersion"], found["kind"], found["metadata"]["name"]) for found in base_objects()]
    assert len(set(names)) == len(names)
    kinds = {kind for _, kind, _ in names}
    assert kinds == {"ServiceAccount", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}


def test_selectors_match_the_pods() -> None:
    selectors = {
        "Deployment": deployment()["spec"]["selector"]["matchLabels"],
        "spread": pod()["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        "PodDisruptionBudget": of_kind("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"],
        "NetworkPolicy": of_kind("NetworkPolicy")[0]["spec"]["podSelector"]["matchLabels"],
        **{s["metadata"]["name"]: s["spec"]["selector"] for s in of_kind("Service")},
    }
    assert all(selector and selector.items() <= pod_labels().items() for selector in selectors.values()), selectors


def test_named_ports_exist_and_are_the_ones_the_server_listens_on() -> None:
    ports = {port["name"]: port["containerPort"] for port in server()["ports"]}
    asked = [port["targetPort"] for service in of_kind("Service") for port in service["spec"]["ports"]]
    asked += [server()[probe]["httpGet"]["port"] for probe in PROBES]
    asked += [p["port"] for rule in of_kind("NetworkPolicy")[0]["spec"]["ingress"] for p in rule["ports"]]
    assert set(asked) == set(ports)
    values = settings(BASE)
    assert ports == {"http": int(values["PRESSROOM_PORT"]), "grpc": int(values["PRESSROOM_GRPC_PORT"])}


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_settings_are_real_and_valid(folder: Path) -> None:
    values = settings(BASE) | settings(folder)
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(values) <= known
    loaded = load_settings(environment=values)
    assert {name for name, origin in loaded.origins.items() if origin == "environment"} == {
        key.removeprefix(PREFIX).lower() for key in values
    }


def test_pods_that_listen_to_the_world_have_keys() -> None:
    loaded = load_settings(environment=settings(BASE)).values
    assert loaded.host == "0.0.0.0"
    assert not loaded.insecure
    mount = next(m for m in server()["volumeMounts"] if loaded.keys_file.startswith(m["mountPath"] + "/"))
    volume = next(v for v in pod()["volumes"] if v["name"] == mount["name"])
    assert mount["readOnly"]
    assert "secret" in volume


def test_artifacts_are_named_with_exact_versions() -> None:
    assert all(":" in entry for entry in load_settings(environment=settings(BASE)).values.model_list())


def test_the_probes_ask_routes_that_need_no_key() -> None:
    paths = {probe: server()[probe]["httpGet"]["path"] for probe in PROBES}
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}


def test_there_is_time_to_finish_before_the_pod_is_killed() -> None:
    loaded = load_settings(environment=settings(BASE)).values
    pause = int(server()["lifecycle"]["preStop"]["exec"]["command"][1])
    needed = pause + loaded.request_timeout_ms / 1000 + loaded.drain_seconds
    assert pod()["terminationGracePeriodSeconds"] > needed


def test_the_container_is_hardened() -> None:
    context = server()["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["runAsUser"] > 0
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_no_pod_carries_a_token() -> None:
    (account,) = of_kind("ServiceAccount")
    assert pod()["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False
    assert pod()["automountServiceAccountToken"] is False


def test_what_the_server_writes_is_writable_on_a_read_only_root() -> None:
    empty = {volume["name"] for volume in pod()["volumes"] if "emptyDir" in volume}
    writable = [m["mountPath"] for m in server()["volumeMounts"] if m["name"] in empty]
    environment = {variable["name"]: variable["value"] for variable in server()["env"]}
    for path in (environment["BENTOML_HOME"], environment["TMPDIR"], "/tmp"):
        assert any(f"{path}/".startswith(f"{mount}/") for mount in writable), path
    assert {m["name"] for m in server()["volumeMounts"]} == {volume["name"] for volume in pod()["volumes"]}


def test_requests_stay_within_limits() -> None:
    files = [
        deployment(),
        *(found for overlay in OVERLAYS for path in overlay.glob("deployment.yaml") for found in read(path)),
    ]
    for found in files:
        for node in walk(found):
            if resources := node.get("resources"):
                requests, limits = resources.get("requests", {}), resources.get("limits", {})
                assert all(quantity(requests[k]) <= quantity(limits[k]) for k in requests.keys() & limits.keys())
                assert "memory" in limits


def test_a_rollout_or_a_drain_never_leaves_nobody() -> None:
    replicas = deployment()["spec"]["replicas"]
    assert of_kind("PodDisruptionBudget")[0]["spec"]["minAvailable"] < replicas
    assert deployment()["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda overlay: overlay.name)
def test_overlays_change_what_exists(overlay: Path) -> None:
    whole = kustomization(overlay)
    assert whole["resources"] == ["../../base"]
    (image,) = whole["images"]
    assert server()["image"].partition(":")[0] == image["name"]
    assert image["newTag"] != "latest"
    existing = {(found["kind"], found["metadata"]["name"]) for found in base_objects()}
    for patch in whole.get("patches", []):
        for found in read(overlay / patch["path"]):
            assert (found["kind"], found["metadata"]["name"]) in existing
            changed = found["spec"]["template"]["spec"]["containers"]
            assert [container["name"] for container in changed] == [server()["name"]]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed; the checks above need none")
@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda overlay: overlay.name)
def test_kustomize_builds_the_overlay(overlay: Path) -> None:
    done = subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects = [found for found in yaml.safe_load_all(done.stdout) if found]
    config = next(found for found in objects if found["kind"] == "ConfigMap")
    assert config["data"] == settings(BASE) | settings(overlay)
    (built,) = [found for found in objects if found["kind"] == "Deployment"]
    source = built["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"]
    assert source == config["metadata"]["name"] != "forecast-settings"  # a changed setting rolls the pods


def test_no_registry_is_written_into_the_manifests() -> None:
    for path in K8S.rglob("*.yaml"):
        images = [node["image"] for found in read(path) for node in walk(found) if isinstance(node.get("image"), str)]
        assert all("/" not in image for image in images), path.name
