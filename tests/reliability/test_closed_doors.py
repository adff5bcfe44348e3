"""A server listens where it was told to, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
from tiny_server import running_tiny


def test_no_port_is_open_but_http_and_grpc(tiny_home: Path, tmp_path: Path) -> None:
    """The supervisor's own control socket is a file of this user, not a port for every local user."""
    with running_tiny(tiny_home, tmp_path, workers="2") as tiny:
        supervisor = psutil.Process(tiny.server.process.pid)
        family = [supervisor, *supervisor.children(recursive=True)]
        assert len(family) >= 3
        connections = [c for process in family for c in process.net_connections("inet")]
        listening = {c.laddr for c in connections if c.status == psutil.CONN_LISTEN}
        assert {address.port for address in listening} == {tiny.server.port, tiny.server.grpc_port}
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
        sockets = {Path(c.laddr) for process in family for c in process.net_connections("unix") if c.laddr}
        files = [path for path in sockets if path.exists()]
        assert files
        assert all(path.parent.stat().st_mode & 0o077 == 0 for path in files)
        assert all(path.parent.stat().st_uid == os.getuid() for path in files)
