"""The container image as a cluster runs it: hardened, small, and it answers (rung 6). `make image` builds it first."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from etth1 import FORECAST, ITRANSFORMER, forecast_of, official, request
from live_server import eventually, free_ports

from services.core.auth import hash_secret
from services.core.version import VERSION

IMAGE = f"localhost/pressroom:{VERSION}"
SECRET = "a-key-for-this-test"
MEGABYTES = 750  # of the whole image, base included
HARDENED = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--memory=768m"]
# Root without the right to raise limits: they must be set within the machine's.
LIMITS = ["--ulimit=nofile=1024:4096", "--ulimit=nproc=1024:1024"]


def podman(*arguments: str | Path) -> str:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def is_built() -> bool:
    command = ["podman", "image", "exists", IMAGE]
    return shutil.which("podman") is not None and subprocess.run(command, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not is_built(), reason="the image is not built: make image")


def inside(command: str) -> str:
    """What a shell in the image says, started as the image's user."""
    return podman("--runtime", "runc", "run", "--rm", *HARDENED, *LIMITS, "--entrypoint", "sh", IMAGE, "-c", command)


@pytest.fixture(scope="module")
def address(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A hardened container that serves forecasts on loopback."""
    folder = tmp_path_factory.mktemp("container")
    folder.chmod(0o755)
    (folder / "keys.toml").write_text(f'[[keys]]\nid = "t"\nsha256 = "{hash_secret(SECRET)}"\nscopes = ["infer"]\n')
    store = folder / "models"
    shutil.copytree(pressed_home / "models", store, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    http, grpc = free_ports(2)
    settings = {
        "PRESSROOM_HOST": "127.0.0.1",
        "PRESSROOM_PORT": http,
        "PRESSROOM_GRPC_PORT": grpc,
        "PRESSROOM_KEYS_FILE": "/keys/keys.toml",
    }
    given = [f"--env={name}={value}" for name, value in settings.items()]
    mounts = [f"--volume={folder}:/keys:ro", f"--volume={store}:/scratch/models:ro"]
    writable = ["--tmpfs=/scratch:rw,mode=1777", "--tmpfs=/tmp:rw,mode=1777"]
    options = [*HARDENED, *LIMITS, *given, *mounts, *writable, "--network=host"]
    container = podman("--runtime", "runc", "run", "--detach", *options, IMAGE, "forecast")
    try:
        url = f"http://127.0.0.1:{http}"
        eventually(lambda: _answers(url), "the container is ready", seconds=90)
        yield url
    finally:
        podman("rm", "--force", "--time", "30", container)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_hardened_container_answers_the_official_forecast(address: str) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    answer = httpx.post(address + FORECAST, json=request(model=ITRANSFORMER), headers=headers, timeout=60)
    expected = official("itransformer").units[0]
    np.testing.assert_allclose(
        forecast_of(answer.raise_for_status().json()["series"][0]), expected, rtol=1e-4, atol=1e-3
    )
    assert httpx.post(address + FORECAST, json=request(model=ITRANSFORMER)).status_code == 401


def test_it_runs_as_nobody_in_particular() -> None:
    assert inside("id -u; id -g").split() == ["10001", "10001"]
    assert inside("touch /opt/x 2>/dev/null || echo refused") == "refused"


def test_it_has_no_compiler_no_git_no_torch_and_no_cuda() -> None:
    assert inside("for tool in gcc g++ cc make git pip; do command -v $tool; done; true") == ""
    packages = inside("ls /opt/pressroom/lib/python3*/site-packages").lower().split()
    assert not [name for name in packages if name.startswith(("torch", "nvidia_c", "triton", "transformers"))]
    assert inside("find / -name 'libcud*' -not -path '/proc/*' 2>/dev/null; true") == ""


def test_its_kernels_are_built() -> None:
    path = inside("find /opt/pressroom -name libpressroom_ops.so")
    assert path.endswith("models/packed/lib/libpressroom_ops.so")


def test_it_is_small() -> None:
    (image,) = json.loads(podman("image", "inspect", IMAGE))
    assert image["Size"] < MEGABYTES * 1e6
    assert image["Config"]["User"] == "10001:10001"
