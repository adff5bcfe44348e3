"""TLS for HTTP and gRPC from one pair of files, and mTLS that leaves callers without a certificate outside."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import etth1
import grpc
import httpx
import numpy as np
import pytest
from asking import rpc_output, stub
from certificates import Certificates, Pair, make_certificates
from live_server import BENTOML, PRESSROOM, LiveServer, clean_environment, free_ports
from pressroom_client import APIConnectionError, Client, GrpcTransport, HttpTransport
from tiny_server import message

_HERE = Path(__file__).parent


@dataclass(kw_only=True)
class TlsServer(LiveServer):
    """A server that is asked over https; `own` is the certificate this process shows it."""

    certificates: Certificates
    own: Pair | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return super().request(method, path, **{"verify": self.context(self.own), **options})

    def context(self, own: Pair | None = None) -> ssl.SSLContext:
        """What a caller who trusts the authority brings."""
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        if own:
            context.load_cert_chain(own.cert, own.key)
        return context


@contextmanager
def running_tls(
    home: Path,
    folder: Path,
    certificates: Certificates,
    command: Sequence[str],
    own: Pair | None = None,
    **settings: str,
) -> Iterator[TlsServer]:
    """A TLS server, asked with the certificate `own` until it is ready."""
    port, grpc_port = free_ports(2)
    named = {"port": str(port), "grpc_port": str(grpc_port), **settings}
    named |= {"tls_cert": str(certificates.server.cert), "tls_key": str(certificates.server.key)}
    environment = {f"PRESSROOM_{name.upper()}": value for name, value in named.items()}
    environment["TINY_FOLDER"] = str(folder)
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=clean_environment(home, environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=_HERE,
            start_new_session=True,
        )
    server = TlsServer(
        process=process, port=port, grpc_port=grpc_port, home=home, log=log, certificates=certificates, own=own
    )
    try:
        server.wait_for("/readyz")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls(
    pressed_home: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsServer]:
    """`pressroom serve` with TLS."""
    command = (PRESSROOM, "serve", "gateway", "--models", etth1.CARD)
    with running_tls(pressed_home, tmp_path_factory.mktemp("tls"), certificates, command) as server:
        yield server


@pytest.fixture(scope="module")
def mtls(tiny_home: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """`bentoml serve` with mTLS."""
    command = (BENTOML, "serve", "tiny_family:Tiny")
    required = {"tls_client_ca": str(certificates.authority)}
    folder = tmp_path_factory.mktemp("mtls")
    with running_tls(tiny_home, folder, certificates, command, own=certificates.client, **required) as server:
        yield server


def test_the_client_forecasts_over_tls_with_both_transports(tls: TlsServer) -> None:
    transports: dict[str, Any] = {
        tls.url: HttpTransport(verify=tls.context()),
        f"grpcs://{tls.grpc_address}": GrpcTransport(credentials=tls.certificates.credentials()),
    }
    answers = []
    for url, transport in transports.items():
        with Client(url, transport=transport) as client:
            answers.append(client.infer(etth1.CARD, {"history": etth1.history()}).outputs["forecast"])
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)


def test_a_caller_who_does_not_trust_the_authority_goes_away(tls: TlsServer) -> None:
    with Client(tls.url, retries=0) as client, pytest.raises(APIConnectionError):
        client.models()
    stranger = grpc.ssl_channel_credentials(tls.certificates.stranger.cert.read_bytes())
    with stub(tls, stranger) as calls, pytest.raises(grpc.RpcError) as refused:
        calls.ModelInfer(message(1.0), timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_plain_text_is_not_answered_where_tls_is_on(tls: TlsServer) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{tls.port}/livez", timeout=30)
    with stub(tls) as calls, pytest.raises(grpc.RpcError) as refused:
        calls.ModelInfer(message(1.0), timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_outdated_tls_is_refused(tls: TlsServer, version: ssl.TLSVersion) -> None:
    context = tls.context()
    context.minimum_version = context.maximum_version = version
    with pytest.raises(httpx.TransportError):
        tls.get("/livez", verify=context)


def test_under_mtls_the_client_s_certificate_opens_both_doors(mtls: TlsServer) -> None:
    own = mtls.certificates.client
    assert mtls.post("/v1/tiny", json={"model": "tiny-a", "x": [2.0]}).json()["y"] == [6.0]
    with stub(mtls, mtls.certificates.credentials(own)) as calls:
        assert rpc_output(calls.ModelInfer(message(2.0), timeout=30)).item() == 6.0
    transport = HttpTransport(verify=mtls.context(own))
    with Client(mtls.url, transport=transport) as client:
        assert client.ready()


@pytest.mark.parametrize("who", ["nobody", "a stranger"])
def test_under_mtls_nobody_else_is_let_in(mtls: TlsServer, who: str) -> None:
    """Not even to the probes: the connection ends in the handshake."""
    own = None if who == "nobody" else mtls.certificates.stranger
    with pytest.raises(httpx.TransportError):
        mtls.get("/livez", verify=mtls.context(own))
    with stub(mtls, mtls.certificates.credentials(own)) as calls, pytest.raises(grpc.RpcError) as refused:
        calls.ModelInfer(message(2.0), timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("wrong", ["other key", "no file", "no certificate", "authority without server"])
def test_files_that_do_not_fit_stop_the_start_in_words(tmp_path: Path, certificates: Certificates, wrong: str) -> None:
    (tmp_path / "text.pem").write_text("nothing")
    good = certificates.server
    settings = {
        "other key": [f"tls_cert={good.cert}", f"tls_key={certificates.client.key}"],
        "no file": [f"tls_cert={tmp_path}/none.pem", f"tls_key={good.key}"],
        "no certificate": [f"tls_cert={tmp_path}/text.pem", f"tls_key={good.key}"],
        "authority without server": [f"tls_client_ca={certificates.authority}"],
    }[wrong]
    command = [PRESSROOM, "serve", "gateway", *(f"--set={s}" for s in settings)]
    done = subprocess.run(
        command, env=clean_environment(tmp_path), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "tls_cert" in done.stderr
    assert "Traceback" not in done.stderr
