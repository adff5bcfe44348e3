"""The package as it is installed: alone, typed, with a flat public root and a manual that runs."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pressroom_client
import pytest
from pressroom_client import Client
from tiny_service import Behaviour, RefusalError

PACKAGE = Path(__file__).parents[2] / "clients/python"
ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        root = name.split(".")[0]
        if root in {"pandas", "grpc", "google", "PIL", "torch", "services", "models", "export", "pressroom"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
import pressroom_client as p

assert p.Client("http://127.0.0.1:1", retries=0).live() is False
p.AsyncClient()
from pressroom_client._pictures import picture
for refused in (
    lambda: p.Client("grpc://127.0.0.1:1"),
    p.Forecast(id=None, values={}, timestamps=None).to_frame,
    picture(b"a file").open,
):
    try:
        refused()
    except p.UsageError as error:
        print(error.hint)
"""


def test_it_works_with_httpx_and_numpy_alone_and_says_what_an_extra_needs() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", ALONE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        'pip install "pressroom-client[grpc]"',
        'pip install "pressroom-client[pandas]"',
        'pip install "pressroom-client[images]"',
    ]


def test_importing_it_loads_neither_pandas_nor_grpc_nor_pillow() -> None:
    code = "import pressroom_client, sys; print(sorted({'pandas', 'grpc', 'PIL', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_lives_beside_tritonclient_in_one_process(url: str) -> None:
    pytest.importorskip("tritonclient.grpc")
    with Client(url) as client:
        assert client.ready()


def test_the_public_root_is_sorted_and_complete() -> None:
    names = pressroom_client.__all__
    assert names == sorted(names)
    public = {name for name in vars(pressroom_client) if not name.startswith("_")}
    assert public == set(names) - {"__version__"}
    assert all(getattr(pressroom_client, name).__doc__ for name in names)


def test_the_project_file_says_what_the_package_is() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert project["version"] == pressroom_client.__version__
    assert project["license"] == "Apache-2.0"
    assert {re.split(r"[<>=]", need)[0] for need in project["dependencies"]} == {"httpx", "numpy"}
    assert (PACKAGE / "pressroom_client/py.typed").exists()


def test_every_block_of_the_manual_runs(addresses: dict[str, str], behaviours: dict[str, Behaviour]) -> None:
    for behaviour in behaviours.values():
        behaviour.reset()
    names = {
        "http://127.0.0.1:3000": addresses["http"],
        "grpc://127.0.0.1:3001": addresses["grpc"],
        "itransformer-etth1": "counter",
        "card-etth1": "counter",
        "Client()": f"Client({addresses['http']!r})",
        "Client(timeout": f"Client({addresses['http']!r}, timeout",
        "Client(retries": f"Client({addresses['http']!r}, retries",
    }
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S):
        for ours, theirs in names.items():
            block = block.replace(ours, theirs)
        exec(compile(block, "README.md", "exec"), namespace)
    assert behaviours["http"].seen
    assert behaviours["grpc"].seen


def test_the_manual_names_every_error() -> None:
    manual = (PACKAGE / "README.md").read_text()
    missing = [name for name, kind in vars(pressroom_client).items() if _is_error(kind) and f"`{name}`" not in manual]
    assert missing == []


def test_retries_are_logged_with_their_request_id_and_without_data(
    url: str, server: Behaviour, instant, caplog: pytest.LogCaptureFixture
) -> None:
    server.refusals.append(RefusalError("queue_full", 429, "RESOURCE_EXHAUSTED"))
    with (
        caplog.at_level(logging.DEBUG, "pressroom_client"),
        Client(url, api_key="s3cret", clock=instant.clock) as client,
    ):
        result = client.forecast({"a": [123.456, 2.0, 3.0, 4.0]})
    lines = [record.getMessage() for record in caplog.records if record.name == "pressroom_client"]
    assert f"retry 1 in 0.50 s after queue_full (request id {result.request_id})" in lines
    assert not any("s3cret" in line or "123.456" in line for line in lines)


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, pressroom_client.PressroomError)
