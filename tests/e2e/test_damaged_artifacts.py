"""A damaged or edited artifact is refused by file name; the server lives, is not ready, and serves the other model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import etth1
import numpy as np
import pytest
from etth1 import CARD, ITRANSFORMER
from live_server import LiveServer, StartServer, eventually
from refusals import check_grpc, check_http
from tensor_cases import as_json, as_message, history
from tritonclient.grpc import InferenceServerClient


def flip_a_byte(artifact: Path) -> str:
    file = artifact / "model.onnx"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file.name


def edit_the_scaler(artifact: Path) -> str:
    file = artifact / "artifact.json"
    manifest = json.loads(file.read_bytes())
    manifest["settings"]["scaler"]["mean"][0] += 1.0
    file.write_text(json.dumps(manifest))
    return file.name


def remove_the_example(artifact: Path) -> str:
    (artifact / "example.json").unlink()
    return "example.json"


def damaged_copy(pressed_home: Path, folder: Path, damage: Callable[[Path], str]) -> tuple[Path, str]:
    """A copy of the store whose CARD is damaged, and the name of the damaged file."""
    home = folder / "home"
    shutil.copytree(pressed_home, home, symlinks=True)
    stored = home / "models" / CARD
    return home, damage(stored / (stored / "latest").read_text().strip())


@pytest.mark.parametrize("damage", [flip_a_byte, edit_the_scaler, remove_the_example])
def test_a_damaged_artifact_is_named_and_the_other_model_is_served(
    pressed_home: Path,
    tmp_path: Path,
    start_server: StartServer,
    server: LiveServer,
    damage: Callable[[Path], str],
) -> None:
    home, file = damaged_copy(pressed_home, tmp_path, damage)
    one = start_server(home=home, ready=False)
    eventually(lambda: file in one.get("/readyz").text, "readiness names the file")
    error = check_http(one.get("/readyz"), 503, "model_not_ready", None)
    assert CARD in error["message"]
    assert str(tmp_path) not in error["message"]
    assert one.get("/livez").status_code == 200
    assert one.get("/v2/health/live").json() == {"live": True}
    check_http(one.get("/v2/health/ready"), 503, "model_not_ready", None)

    refused = one.post(f"/v2/models/{CARD}/infer", json=as_json([history()]))
    assert file in check_http(refused, 503, "model_not_ready", "model")["message"]
    check_http(one.post(etth1.FORECAST, json=etth1.request(model=CARD)), 503, "model_not_ready", "model")
    check_grpc(one, as_message(CARD, [history()]), "UNAVAILABLE", "model_not_ready", "model")
    with InferenceServerClient(one.grpc_address) as client:
        assert client.is_server_live()
        assert not client.is_server_ready()
        assert not client.is_model_ready(CARD)
        assert client.is_model_ready(ITRANSFORMER)

    index = {entry["name"]: entry for entry in one.post("/v2/repository/index").json()}
    assert (index[ITRANSFORMER]["state"], index[CARD]["state"]) == ("READY", "UNAVAILABLE")
    assert file in index[CARD]["reason"]
    assert str(tmp_path) not in index[CARD]["reason"]
    assert [entry["id"] for entry in one.get("/v1/models").json()["data"]] == [ITRANSFORMER]
    assert (one.metric("pressroom_models_refused"), server.metric("pressroom_models_refused")) == (1, 0)
    assert file in one.log_tail()

    good = etth1.request(model=ITRANSFORMER)
    answers = [each.post(etth1.FORECAST, json=good).raise_for_status().json() for each in (one, server)]
    got, expected = (etth1.forecast_of(answer["series"][0]) for answer in answers)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_model_that_is_not_in_the_store_keeps_the_server_from_being_ready(start_server: StartServer) -> None:
    one = start_server("--models", f"{ITRANSFORMER},weather", ready=False)
    eventually(lambda: "weather" in one.get("/readyz").text, "readiness names the model")
    error = check_http(one.get("/readyz"), 503, "model_not_ready", None)
    assert "no artifact weather" in error["message"]
    assert one.post(etth1.FORECAST, json=etth1.request()).status_code == 200
    refused = one.post(etth1.FORECAST, json=etth1.request(model="weather"))
    check_http(refused, 503, "model_not_ready", "model")


def test_an_artifact_of_another_digest_than_it_is_pinned_to_is_not_served(
    pressed_home: Path, start_server: StartServer, server: LiveServer
) -> None:
    """As where a volume holds another artifact of the same name and version than the one that was reviewed."""
    served = {entry["id"]: entry for entry in server.get("/v1/models").json()["data"]}
    digest = {name: entry["digest"] for name, entry in served.items()}
    version = {name: entry["version"] for name, entry in served.items()}
    other = "sha256:" + "0" * 64
    pins = f"{ITRANSFORMER}:{version[ITRANSFORMER]}@{digest[ITRANSFORMER]},{CARD}:{version[CARD]}@{other}"
    one = start_server("--models", pins, ready=False)
    eventually(lambda: other in one.get("/readyz").text, "readiness names the digest")
    assert digest[CARD] in check_http(one.get("/readyz"), 503, "model_not_ready", None)["message"]
    assert [entry["id"] for entry in one.get("/v1/models").json()["data"]] == [ITRANSFORMER]
    assert one.post(etth1.FORECAST, json=etth1.request(model=ITRANSFORMER)).status_code == 200
