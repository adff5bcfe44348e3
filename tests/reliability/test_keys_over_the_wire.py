"""API keys of a running server, over HTTP and gRPC."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import etth1
import grpc
import pytest
from asking import INFER, forecast_message, refusal_of, rpc, rpc_refusal, stub
from keyring import KeyRing
from live_server import PRESSROOM, LiveServer, StartServer, clean_environment, eventually
from pressroom_client import Client
from tritonclient.grpc import service_pb2

REQUEST = etth1.request(model=etth1.CARD)
UNKNOWN = "an-unknown-secret-nobody-made"
SCOPES = {
    "/v1/models": "infer",
    f"/v2/models/{etth1.CARD}": "infer",
    "/v2": "infer",
    "/metrics": "metrics",
}
OPEN = ("/livez", "/readyz", "/healthz", "/v2/health/live", "/v2/health/ready", f"/v2/models/{etth1.CARD}/ready")
Message = service_pb2


@pytest.fixture(scope="module")
def keyed(start_server: StartServer, keys: KeyRing) -> LiveServer:
    return start_server("--keys-file", str(keys.path), "--set", "access_log=all", "--models", etth1.CARD)


@pytest.mark.parametrize("name", ["infer", "metrics", "admin"])
@pytest.mark.parametrize("path", SCOPES)
def test_each_route_opens_to_its_scope_alone(keyed: LiveServer, keys: KeyRing, path: str, name: str) -> None:
    response = keyed.get(path, headers=keys.bearer(name))
    if name == SCOPES[path]:
        assert response.status_code == 200
    else:
        refusal = refusal_of(response)
        assert (refusal.status, refusal.code) == (403, "permission_denied")
        assert refusal.error["hint"] == f"it has: {name}"


def test_a_key_is_taken_as_bearer_token_or_in_its_own_header(keyed: LiveServer, keys: KeyRing) -> None:
    for headers in (
        keys.bearer("infer"),
        {"authorization": f"bearer   {keys.secrets['infer']}"},
        {"X-API-Key": keys.secrets["infer"]},
        {"X-API-Key": keys.secrets["infer"], "Authorization": "Basic dXNlcjpwYXNz"},
    ):
        assert keyed.post(etth1.FORECAST, json=REQUEST, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": f"Bearer {UNKNOWN}"}, {"X-API-Key": UNKNOWN}, {"Authorization": "Bearer"}],
    ids=["none", "unknown bearer", "unknown header", "empty bearer"],
)
@pytest.mark.parametrize("path", [etth1.FORECAST, INFER.format(etth1.CARD), "/v2/repository/models/x/load"])
def test_no_key_or_an_unknown_one_is_401_with_the_way_to_authenticate(
    keyed: LiveServer, path: str, headers: dict[str, str]
) -> None:
    refusal = refusal_of(keyed.post(path, json=REQUEST, headers=headers))
    assert (refusal.status, refusal.code) == (401, "unauthenticated")
    assert refusal.headers["www-authenticate"] == "Bearer"


def test_a_bearer_token_wins_over_the_other_header(keyed: LiveServer, keys: KeyRing) -> None:
    headers = {"Authorization": f"Bearer {UNKNOWN}", "X-API-Key": keys.secrets["infer"]}
    assert keyed.get("/v1/models", headers=headers).status_code == 401


@pytest.mark.parametrize("path", OPEN)
def test_probes_need_no_key(keyed: LiveServer, path: str) -> None:
    assert keyed.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/metrics/", "//metrics", "/v1/models/", "/v1//models", "/V1/models"])
def test_no_other_spelling_of_a_path_leads_past_the_keys(keyed: LiveServer, path: str) -> None:
    response = keyed.get(path)
    assert response.status_code in (401, 404)
    assert "pressroom_" not in response.text
    assert etth1.CARD not in response.text


CALLS = {
    "ModelInfer": (forecast_message(), "infer"),
    "ServerMetadata": (Message.ServerMetadataRequest(), "infer"),
    "ModelMetadata": (Message.ModelMetadataRequest(name=etth1.CARD), "infer"),
    "ModelConfig": (Message.ModelConfigRequest(name=etth1.CARD), "infer"),
    "RepositoryIndex": (Message.RepositoryIndexRequest(), "infer"),
    "RepositoryModelLoad": (Message.RepositoryModelLoadRequest(model_name=etth1.CARD), "admin"),
    "RepositoryModelUnload": (Message.RepositoryModelUnloadRequest(model_name="nothing"), "admin"),
}


@pytest.mark.parametrize("call", CALLS)
def test_each_call_opens_to_its_scope_alone(keyed: LiveServer, keys: KeyRing, call: str) -> None:
    message, scope = CALLS[call]
    other = "admin" if scope == "infer" else "infer"
    refusal = rpc_refusal(keyed, call, message, metadata=keys.metadata(other))
    assert (refusal.status, refusal.code) == ("PERMISSION_DENIED", "permission_denied")
    for metadata in ([], [("x-api-key", UNKNOWN)], [("authorization", f"Bearer {UNKNOWN}")]):
        refusal = rpc_refusal(keyed, call, message, metadata=metadata)
        assert (refusal.status, refusal.code) == ("UNAUTHENTICATED", "unauthenticated")
    if call != "RepositoryModelUnload":
        assert rpc(keyed, call, message, metadata=keys.metadata(scope)) is not None


def test_a_call_takes_the_key_in_either_metadata(keyed: LiveServer, keys: KeyRing) -> None:
    for metadata in (keys.metadata("infer"), [("x-api-key", keys.secrets["infer"])]):
        assert rpc(keyed, "ModelInfer", forecast_message(), metadata=metadata).model_name == etth1.CARD


def test_grpc_probes_need_no_key(keyed: LiveServer) -> None:
    assert rpc(keyed, "ServerLive", Message.ServerLiveRequest()).live
    assert rpc(keyed, "ServerReady", Message.ServerReadyRequest()).ready
    assert rpc(keyed, "ModelReady", Message.ModelReadyRequest(name=etth1.CARD)).ready


def test_every_answer_of_a_stream_needs_the_key(keyed: LiveServer, keys: KeyRing) -> None:
    with stub(keyed) as calls:
        (refused,) = calls.ModelStreamInfer(iter([forecast_message()]), timeout=30)
        (answered,) = calls.ModelStreamInfer(iter([forecast_message()]), metadata=keys.metadata("infer"), timeout=30)
    assert json.loads(refused.error_message)["error"]["code"] == "unauthenticated"
    assert answered.infer_response.model_name == etth1.CARD


def test_the_client_passes_its_key_over_both_transports(keyed: LiveServer, keys: KeyRing) -> None:
    for url in (keyed.url, f"grpc://{keyed.grpc_address}"):
        with Client(url, api_key=keys.secrets["infer"]) as client:
            assert client.infer(etth1.CARD, {"history": etth1.history()}).outputs["forecast"].shape == (1, 96, 7)


def test_a_limited_key_is_told_what_is_left_and_when_to_return(keyed: LiveServer, keys: KeyRing) -> None:
    """Three a minute: the fourth is refused over either protocol (unless the minute ended meanwhile)."""
    responses = [keyed.get("/v1/models", headers=keys.bearer("limited")) for _ in range(3)]
    assert [r.status_code for r in responses] == [200] * 3
    assert {r.headers["ratelimit-limit"] for r in responses} == {"3"}
    assert [r.headers["ratelimit-remaining"] for r in responses] == ["2", "1", "0"]
    refusal = refusal_of(keyed.get("/v1/models", headers=keys.bearer("limited")))
    assert (refusal.status, refusal.code) == (429, "rate_limited")
    assert 1 <= int(refusal.headers["retry-after"]) <= 60
    assert (refusal.headers["ratelimit-limit"], refusal.headers["ratelimit-remaining"]) == ("3", "0")
    assert 0 < refusal.error["retry_after_ms"] <= 60_000
    refusal = rpc_refusal(keyed, "ModelInfer", forecast_message(), metadata=keys.metadata("limited"))
    assert (refusal.status, refusal.code) == ("RESOURCE_EXHAUSTED", "rate_limited")
    assert 0 < int(refusal.headers["retry-after-ms"]) <= 60_000
    assert refusal.headers["ratelimit-remaining"] == "0"


def test_an_unlimited_key_gets_no_limit_headers(keyed: LiveServer, keys: KeyRing) -> None:
    headers = keyed.get("/v1/models", headers=keys.bearer("infer")).headers
    assert not [name for name in headers if name.startswith("ratelimit")]


def test_over_grpc_the_limit_comes_as_trailing_metadata(keyed: LiveServer, keys: KeyRing) -> None:
    keys.make("counted", "infer", per_minute=100)
    eventually(lambda: keyed.get("/v1/models", headers=keys.bearer("counted")).status_code == 200, "the key works")
    with stub(keyed) as calls:
        _, call = calls.ModelInfer.with_call(forecast_message(), metadata=keys.metadata("counted"), timeout=30)
    trailing = {item[0]: item[1] for item in call.trailing_metadata()}
    assert (trailing["ratelimit-limit"], trailing["ratelimit-remaining"]) == ("100", "98")
    assert trailing["x-request-id"]


def test_a_key_made_or_dropped_while_running_takes_effect(keyed: LiveServer, keys: KeyRing) -> None:
    keys.make("late", "infer")

    def status() -> int:
        return keyed.get("/v1/models", headers=keys.bearer("late")).status_code

    eventually(lambda: status() == 200, "the new key works", 10)
    keys.drop("late")
    eventually(lambda: status() == 401, "the dropped key no longer works", 10)


def test_a_broken_edit_keeps_the_old_keys_in_force_and_is_logged(keyed: LiveServer, keys: KeyRing) -> None:
    keys.write("[[keys]\nthis is no TOML")
    try:
        eventually(
            lambda: (
                keyed.get("/v1/models", headers=keys.bearer("infer")).status_code == 200
                and "the changed key file is not in force" in keyed.log.read_text()
            ),
            "the broken edit is noticed",
            10,
        )
        assert keyed.get("/v1/models", headers=keys.bearer("infer")).status_code == 200
        assert keyed.get("/v1/models").status_code == 401
    finally:
        keys.restore()


def test_keys_are_in_no_log_no_refusal_and_no_file(keyed: LiveServer, keys: KeyRing) -> None:
    bad = keyed.get("/v1/models", headers={"Authorization": f"Bearer {UNKNOWN}"})
    wrong = keyed.get("/metrics", headers=keys.bearer("infer"))
    keyed.post(etth1.FORECAST, json=REQUEST, headers=keys.bearer("infer"))
    rpc_refusal(keyed, "ModelInfer", forecast_message(), metadata=[("x-api-key", UNKNOWN)])
    written = keyed.log.read_text()
    assert '"key":"infer"' in written  # the id, so that operators know who
    for secret in (UNKNOWN, *keys.secrets.values()):
        for place in (written, bad.text, wrong.text, keys.path.read_text()):
            assert secret not in place


def test_print_config_names_the_key_file_and_nothing_in_it(keys: KeyRing, tmp_path: Path) -> None:
    command = [PRESSROOM, "serve", "gateway", "--keys-file", str(keys.path), "--print-config", "--json"]
    done = subprocess.run(command, env=clean_environment(tmp_path), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["keys_file"] == {"value": str(keys.path), "origin": "flag"}
    hashes = [line.split('"')[1] for line in keys.path.read_text().splitlines() if line.startswith("sha256")]
    assert not [secret for secret in (*keys.secrets.values(), *hashes) if secret in done.stdout + done.stderr]


@pytest.mark.parametrize(("host", "by"), [("0.0.0.0", "flag"), ("::", "environment")])
def test_a_server_open_to_the_world_without_keys_refuses_to_start(tmp_path: Path, host: str, by: str) -> None:
    command = [PRESSROOM, "serve", "gateway", *(["--host", host] if by == "flag" else [])]
    environment = clean_environment(tmp_path, {"PRESSROOM_HOST": host} if by == "environment" else {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    for word in (host, "pressroom key", "--keys-file", "--insecure"):
        assert word in done.stderr


def test_a_key_file_that_cannot_be_read_stops_the_start_in_words(pressed_home: Path, tmp_path: Path) -> None:
    command = [PRESSROOM, "serve", "gateway", "--keys-file", str(tmp_path / "none.toml"), "--port", "1"]
    done = subprocess.run(
        command, env=clean_environment(pressed_home), capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 2
    assert "none.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_paths_leave_no_series_behind(keyed: LiveServer, keys: KeyRing) -> None:
    """Anyone may ask for any path: each would otherwise cost the server memory for ever."""
    for i in range(20):
        assert keyed.get(f"/made-up-{i}").status_code == 404
    scraped = keyed.get("/metrics", headers=keys.bearer("metrics")).text
    assert "made-up" not in scraped
    assert "bentoml_" not in scraped


def test_without_keys_nobody_administers(server: LiveServer) -> None:
    refusal = refusal_of(server.post(f"/v2/repository/models/{etth1.CARD}/unload"))
    assert (refusal.status, refusal.code) == (403, "permission_denied")
    assert "PRESSROOM_KEYS_FILE" in refusal.error["hint"]
    message = Message.RepositoryModelUnloadRequest(model_name=etth1.CARD)
    assert rpc_refusal(server, "RepositoryModelUnload", message).code == "permission_denied"
    with pytest.raises(grpc.RpcError):
        rpc(server, "RepositoryModelLoad", Message.RepositoryModelLoadRequest(model_name=etth1.CARD))
