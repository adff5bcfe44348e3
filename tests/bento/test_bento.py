"""`bentoml build` and `bentoml serve TAG`: the bento holds what serving needs, and answers like the repository does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from built import Bento
from etth1 import ITRANSFORMER, MODELS, START, forecast_of, official, request
from live_server import BENTOML, clean_environment, running_server

ROOT = Path(__file__).resolve().parents[2]
BENTOFILE = yaml.safe_load((ROOT / "bentofile.yaml").read_text())
MARKED_VERSION = "0.0.0+from.the.bento"
ONLY_TO_PRESS = {"torch", "onnx", "onnxscript", "pandas", "transformers", "pressroom"}


def test_a_bento_served_by_its_tag_answers_the_official_forecast(bento: Bento, tmp_path: Path) -> None:
    source = bento.source / "services" / "core" / "version.py"
    whole = source.read_text()
    source.write_text(whole + f'\nVERSION = "{MARKED_VERSION}"\n')
    try:
        with running_server(
            bento.home, tmp_path / "log", command=(BENTOML, "serve", bento.tag), cwd=tmp_path
        ) as server:
            import httpx

            assert server.get("/v2").json()["version"] == MARKED_VERSION  # the bento's code runs, not the checkout's
            served = {model["id"]: model for model in server.get("/v1/models").json()["data"]}
            answer = httpx.post(f"{server.url}/v1/forecast", json=request(model=ITRANSFORMER), timeout=60).json()
            assert _over_grpc(server.grpc_address)
    finally:
        source.write_text(whole)
    assert set(served) == set(MODELS.values())
    assert answer["digest"] == served[ITRANSFORMER]["digest"]
    expected = official("itransformer")
    assert expected.first[0] == START
    np.testing.assert_allclose(forecast_of(answer["series"][0]), expected.units[0], rtol=1e-4, atol=1e-3)


def test_a_bento_that_moved_brings_its_artifacts(bento: Bento, tmp_path: Path) -> None:
    """Unpacked in a folder over an empty store, as in a container."""
    archive, folder = tmp_path / "pressroom.bento", tmp_path / "unpacked"
    subprocess.run([BENTOML, "export", bento.tag, str(archive)], env=clean_environment(bento.home), check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    command = (BENTOML, "serve", str(folder))
    with running_server(tmp_path / "empty", tmp_path / "log", command=command, cwd=tmp_path) as server:
        served = {model["id"] for model in server.get("/v1/models").json()["data"]}
    assert served == set(MODELS.values())


def _over_grpc(address: str) -> bool:
    from pressroom_client import Client

    with Client(f"grpc://{address}") as client:
        return client.model_ready(ITRANSFORMER)


@pytest.fixture(scope="module")
def loaded(bento: Bento) -> dict[str, Any]:
    """What a process that serves from the bento's source loads."""
    script = str(Path(__file__).with_name("loaded_distributions.py"))
    done = subprocess.run(
        [sys.executable, script],
        cwd=bento.source, env=clean_environment(bento.home), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_everything_that_serving_imports_is_installed_in_a_container(loaded: dict[str, Any]) -> None:
    """Each package our loaded modules import is a requirement of the bento, or a requirement of one."""
    assert len(loaded["served"]) == 2
    assert {"onnxruntime", "grpc", "bentoml", "numpy"} <= loaded["imports"].keys()
    installed = _closure(BENTOFILE["python"]["packages"])
    assert {top: by for top, by in loaded["imports"].items() if not installed & set(map(_name, by))} == {}


def test_serving_loads_none_of_the_packages_for_pressing(loaded: dict[str, Any]) -> None:
    assert set(loaded["loaded"]) & ONLY_TO_PRESS == set()


def test_the_bento_brings_its_own_code_and_version(loaded: dict[str, Any], bento: Bento) -> None:
    assert Path(loaded["service_file"]) == bento.source / "services" / "gateway.py"
    assert Path(loaded["version_file"]) == bento.source / "services" / "core" / "version.py"


def test_the_bento_names_its_artifacts_with_exact_versions(bento: Bento) -> None:
    info = yaml.safe_load((bento.path / "bento.yaml").read_text())
    names = {model["tag"].partition(":")[0]: model["tag"].partition(":")[2] for model in info["models"]}
    assert set(names) == set(MODELS.values())
    assert all(version not in ("", "latest") for version in names.values())


def test_a_bento_serves_the_versions_it_was_built_with_whatever_came_into_the_store_since(bento: Bento) -> None:
    show = "from _bentoml_impl.loader import load; import sys; print(load(sys.argv[1]).settings.models)"
    done = subprocess.run(
        [sys.executable, "-c", show, bento.tag],
        cwd=bento.home, env=clean_environment(bento.home), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    info = yaml.safe_load((bento.path / "bento.yaml").read_text())
    assert done.stdout.split() == [",".join(model["tag"] for model in info["models"])], done.stderr


def test_the_bento_holds_code_and_no_data(bento: Bento) -> None:
    top = {path.name for path in bento.source.iterdir()}
    assert {"services", "models", "export", "pressroom", "clients"} <= top
    assert not top & {"data", "tests", "docs", ".venv", "out"}
    for needed in ("core/proto/open_inference.binpb", "core/http/docs.html", "ui/static/index.html"):
        assert (bento.source / "services" / needed).is_file()
    assert (bento.source / "clients" / "python" / "pressroom_client" / "open_inference.binpb").is_file()
    assert not list(bento.source.rglob("__pycache__/*.pyc")) or _not_built_in(bento)


def _not_built_in(bento: Bento) -> bool:
    """Byte code that appeared after the build, because something was imported from there."""
    built = (bento.path / "bento.yaml").stat().st_mtime
    return all(file.stat().st_mtime >= built for file in bento.source.rglob("*.pyc"))


def test_the_bento_pins_what_the_project_pins() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [pin for pin in BENTOFILE["python"]["packages"] if pin not in project] == []
    assert BENTOFILE["python"]["lock_packages"] is False


def _closure(requirements: list[str]) -> set[str]:
    """Names of these distributions and of everything they require, as installed here; extras only where asked for."""
    todo, found = [_name(r) for r in requirements], set[str]()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue
        todo += [_name(need) for need in needs if "extra ==" not in need]
    return found


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return found[0].lower().replace("_", "-")
