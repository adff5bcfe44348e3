"""Certificates made for one test by the openssl program: an authority, the server's, a client's, and a stranger's."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import grpc

_SERVER = "subjectAltName=IP:127.0.0.1,DNS:localhost"
_PLAIN = "basicConstraints=CA:FALSE"


@dataclass(frozen=True)
class Pair:
    """A PEM certificate and its key."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Certificates:
    """server and client are signed by authority, stranger by itself."""

    authority: Path
    server: Pair
    client: Pair
    stranger: Pair

    def credentials(self, own: Pair | None = None) -> grpc.ChannelCredentials:
        """What a gRPC caller who trusts the authority brings."""
        chain, key = (own.cert.read_bytes(), own.key.read_bytes()) if own else (None, None)
        return grpc.ssl_channel_credentials(self.authority.read_bytes(), key, chain)


def make_certificates(folder: Path) -> Certificates:
    authority = _self_signed(folder, "authority", "basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign")
    return Certificates(
        authority=authority.cert,
        server=_signed(folder, "server", authority, _SERVER),
        client=_signed(folder, "client", authority, _PLAIN),
        stranger=_self_signed(folder, "stranger", _PLAIN),
    )


def _self_signed(folder: Path, name: str, *extensions: str) -> Pair:
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    added = [part for extension in extensions for part in ("-addext", extension)]
    _openssl("req", "-x509", *_new_key(pair, name), "-days", "2", "-out", str(pair.cert), *added)
    return pair


def _signed(folder: Path, name: str, by: Pair, extension: str) -> Pair:
    pair, request, extensions = Pair(folder / f"{name}.pem", folder / f"{name}.key"), folder / "csr", folder / "ext"
    extensions.write_text(extension)
    _openssl("req", *_new_key(pair, name), "-out", str(request))
    signer = ["-CA", str(by.cert), "-CAkey", str(by.key), "-CAcreateserial"]
    given = ["-in", str(request), "-out", str(pair.cert), "-extfile", str(extensions)]
    _openssl("x509", "-req", "-days", "2", *signer, *given)
    return pair


def _new_key(pair: Pair, name: str) -> list[str]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    return [*curve, "-keyout", str(pair.key), "-subj", f"/CN={name}"]


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
