"""Ways to start: BentoML's own command from anywhere, one family alone, settings and where they come from."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import etth1
import numpy as np
import pytest
from live_server import BENTOML, PRESSROOM, LiveServer, StartServer, clean_environment
from refusals import grpc_infer
from tensor_cases import as_message, history


def forecast(server: LiveServer) -> np.ndarray:
    answer = server.post(etth1.FORECAST, json=etth1.request()).raise_for_status().json()
    return etth1.forecast_of(answer["series"][0])


@pytest.mark.parametrize(
    "command",
    [
        (BENTOML, "serve", "services.gateway:Gateway"),
        (BENTOML, "serve", "services.forecast:Forecast"),
        (PRESSROOM, "serve", "forecast"),
    ],
    ids=lambda command: " ".join([Path(command[0]).name, *command[1:]]),
)
def test_each_command_serves_the_same_from_any_directory(
    start_server: StartServer, server: LiveServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    one = start_server(command=command, cwd=tmp_path)
    np.testing.assert_allclose(forecast(one), forecast(server), rtol=1e-5, atol=1e-5)
    assert grpc_infer(one, as_message(etth1.CARD, [history()])).model_name == etth1.CARD
    assert one.metric("pressroom_requests_total", code="ok") == 2
    assert one.stop() == 0


def test_without_grpc_the_server_serves_http(start_server: StartServer) -> None:
    one = start_server("--grpc-port", "0")
    assert forecast(one).shape == (96, 7)


def test_only_the_models_that_were_named_are_served(start_server: StartServer) -> None:
    one = start_server("--models", etth1.CARD)
    assert [entry["id"] for entry in one.get("/v1/models").json()["data"]] == [etth1.CARD]
    nameless = {"series": etth1.series()}
    assert one.post(etth1.FORECAST, json=nameless).json()["model"] == etth1.CARD


def run(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PRESSROOM, "serve", *arguments],
        env=clean_environment(home, environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_print_config_shows_each_setting_with_its_origin_flag_first(tmp_path: Path) -> None:
    file = tmp_path / "press.toml"
    file.write_text("port = 4000\ngrpc_port = 4001\nworkers = 4\nmax_delay_ms = 7.5\n")
    environment = {"PRESSROOM_CONFIG": str(file), "PRESSROOM_GRPC_PORT": "5001", "PRESSROOM_WORKERS": "5"}
    done = run("gateway", "--workers", "6", "--print-config", "--json", home=tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["workers"] == {"value": 6, "origin": "flag"}
    assert shown["grpc_port"] == {"value": 5001, "origin": "environment"}
    assert shown["port"] == {"value": 4000, "origin": "press.toml"}
    assert shown["max_delay_ms"] == {"value": 7.5, "origin": "press.toml"}
    assert shown["max_batch_rows"] == {"value": 64, "origin": "default"}


def test_print_config_is_a_table_for_people(tmp_path: Path) -> None:
    done = run("gateway", "--port", "4000", "--print-config", home=tmp_path)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["port", "4000", "flag"] in rows
    assert ["max_batch_rows", "64", "default"] in rows


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["gateway", "--workers", "0"], {}, ["workers", "flag", "0"]),
        (["gateway"], {"PRESSROOM_MAX_BATCH_ROWS": "many"}, ["max_batch_rows", "environment", "many"]),
        (["gateway"], {"PRESSROOM_CONFIG": "/nowhere/press.toml"}, ["PRESSROOM_CONFIG", "press.toml"]),
        (["teapot"], {}, ["teapot", "gateway", "forecast"]),
    ],
    ids=["flag", "environment", "file", "service"],
)
def test_a_wrong_setting_is_refused_by_name_and_origin(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], words: list[str]
) -> None:
    done = run(*arguments, home=tmp_path, **environment)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
