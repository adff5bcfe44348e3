"""HTTP as bytes on a socket, for what well-behaved clients cannot do: pipelining, half-sent bodies, going away."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

from live_server import LiveServer


@dataclass(frozen=True)
class Answer:
    """A response as it arrived; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def head(method: str, path: str, headers: dict[str, str]) -> bytes:
    """The request line and headers, with the blank line that ends them."""
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class RawConnection:
    """One TCP connection to a server; closes on exit."""

    def __init__(self, server: LiveServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self._left = b""

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def post(self, path: str, body: bytes, **headers: str) -> None:
        """A whole request in one piece."""
        fields = {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.send(head("POST", path, fields) + body)

    def answer(self) -> Answer:
        """The next response: its headers, then as many bytes as Content-Length says."""
        block = self._until(b"\r\n\r\n")
        status_line, *lines = block.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        return Answer(int(status_line.split()[1]), headers, self._exactly(int(headers.get("content-length", "0"))))

    def at_end(self) -> bool:
        """Whether the server closed the connection; waits for it."""
        return not self._left and self._socket.recv(1) == b""

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._left:
            self._receive()
        block, _, self._left = self._left.partition(mark)
        return block

    def _exactly(self, size: int) -> bytes:
        while len(self._left) < size:
            self._receive()
        body, self._left = self._left[:size], self._left[size:]
        return body

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection before its answer was complete")
        self._left += data
