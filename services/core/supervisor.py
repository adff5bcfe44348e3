"""What the supervising process must do before BentoML starts its workers.

Only that process may: workers find PROMETHEUS_MULTIPROC_DIR in their environment and leave things as they are.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import tempfile
from typing import Any

from bentoml._internal.configuration.containers import BentoMLContainer
from bentoml._internal.utils import circus

SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
CHECK_SECONDS = 1.0  # how often the supervisor looks for dead workers; BentoML's 10 leave a lone worker's server down


def prepare() -> None:
    """Prepare this process if it supervises (and has not been prepared yet)."""
    if SHARED_DIRECTORY in os.environ or getattr(circus.Arbiter, "refuses_while_draining", False):
        return
    _supervise_closely(_own_shared_directory())
    _refuse_while_draining()


def _own_shared_directory() -> str:
    """A directory of this server's own for metric files and commands.

    BentoML's default lies in BENTOML_HOME and is emptied whenever any server of that home starts.
    """
    directory = tempfile.mkdtemp(prefix="pressroom-server-")
    BentoMLContainer.prometheus_multiproc_dir.set(directory)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _supervise_closely(directory: str) -> None:
    """Replace dead workers soon, and take the supervisor's commands from this user only.

    Its control socket knows no password and can start programs. BentoML opens it on a loopback port, for every local
    user; here it is a file in a directory only the owner can enter.
    """
    begin = circus.Arbiter.__init__

    def begin_closely(arbiter: Any, *args: Any, **options: Any) -> None:
        sockets = {"endpoint": f"ipc://{directory}/control", "pubsub_endpoint": f"ipc://{directory}/events"}
        begin(arbiter, *args, **options | sockets | {"check_delay": CHECK_SECONDS})

    circus.Arbiter.__init__ = begin_closely  # type: ignore[method-assign,assignment]


def _refuse_while_draining() -> None:
    """Stop listening the moment a stop is asked for.

    The supervisor holds the listening socket until the last worker has drained; without this, the kernel goes on
    accepting connections nobody will serve, and callers hang where they should be refused and retry elsewhere.
    """
    stop = circus.Arbiter.stop

    def stop_listening_first(arbiter: Any) -> Any:
        for listening in arbiter.sockets.values():
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
        return stop(arbiter)

    circus.Arbiter.stop = stop_listening_first  # type: ignore[method-assign,assignment]
    circus.Arbiter.refuses_while_draining = True
