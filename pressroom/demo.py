"""`make demo`: from the bundled checkpoints to a forecast over HTTP and gRPC, in one command.

Press the two checkpoints (nothing to do the second time), start the gateway on free loopback ports, send one real
window of ETTh1's test rows through the client over both transports, compare the answers, print them beside what
really happened, draw `out/demo.png`, stop the server. The artifacts stay in the model store: `make serve` serves them.

Exit status: 0 fine, 1 something failed (with the reason and a remedy on standard error).
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from pressroom.demo_report import PICTURE, Answer, draw, read_window, show
from pressroom.output import fail, progress_bar

if TYPE_CHECKING:
    from export.store import Stored
    from pressroom.demo_report import Window

READY_SECONDS = 90.0
STOP_SECONDS = 30.0
LOG_LINES = 15  # of the server's log, shown if it fails
AGREE = 1e-6  # relative; both transports carry the same JSON numbers


class DemoError(RuntimeError):
    """The demo cannot go on. hint: what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Address:
    """Where the demo's server listens."""

    port: int
    grpc_port: int

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def grpc(self) -> str:
        return f"grpc://127.0.0.1:{self.grpc_port}"


def main() -> int:
    """Run the demo; returns the exit status."""
    os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")  # nothing here calls home
    try:
        run()
    except DemoError as error:
        return fail(error.message, error.hint, 1, as_json=False)
    except OSError as error:
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        return fail(what, "run this where you may write, with BENTOML_HOME set to such a folder", 1, as_json=False)
    except KeyboardInterrupt:
        return fail("interrupted", "the server is stopped; what was pressed is kept", 1, as_json=False)
    return 0


def run() -> None:
    """All steps. Raises DemoError."""
    began = time.monotonic()
    print("1/4 press the bundled checkpoints into verified artifacts (under a minute the first time)", flush=True)
    stored = press()
    for one in stored:
        print(f"    {one.tag}  {one.digest[:19]}  {'already there' if one.unchanged else 'certified and stored'}")
    print("2/4 start the gateway and wait until it is ready", flush=True)
    started = time.monotonic()
    with server(stored) as address:
        print(f"    {address.http}  {address.grpc}  after {time.monotonic() - started:.1f} s")
        window = read_window()
        print(f"3/4 send {window.described} over HTTP and gRPC\n", flush=True)
        answers = [ask(one, window, address) for one in stored]
    show(answers, window)
    print("\n4/4 draw history, forecasts and truth", flush=True)
    draw(answers, window)
    print(f"    {PICTURE}")
    print(f"done in {time.monotonic() - began:.0f} s. The server is stopped; `make serve` starts one that stays.")


def press() -> list[Stored]:
    """Press the bundled checkpoints unless the store holds them already."""
    from export.artifact import ArtifactError
    from export.errors import ExportError
    from pressroom.bundled import press_bundled

    try:
        with progress_bar() as report:
            return press_bundled(report)
    except (ExportError, ArtifactError) as error:
        raise DemoError(error.message, error.hint or "`pressroom export bundled` repeats this step alone") from None


@contextlib.contextmanager
def server(stored: list[Stored]) -> Iterator[Address]:
    """A gateway as a child process that serves exactly these artifacts; stopped in the end, whatever happened."""
    address = Address(*_free_ports())
    flags = ["--host", "127.0.0.1", "--port", str(address.port), "--grpc-port", str(address.grpc_port)]
    flags += ["--models", ",".join(one.tag for one in stored)]
    command = [sys.executable, "-c", "from pressroom.cli import main; main()", "serve", "gateway", *flags]
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_ready(child, address, log)
            yield address
        finally:
            _stop(child)


def ask(one: Stored, window: Window, address: Address) -> Answer:
    """The forecast of one model over both transports. Raises DemoError if the numbers differ."""
    from pressroom_client import Client, PressroomError

    results, took = [], []
    for url in (address.http, address.grpc):
        with Client(url) as client:
            client.ready()  # opens the connection, so that the time below is the request's
            began = time.perf_counter()
            try:
                results.append(client.forecast(window.history, model=one.tag))
            except PressroomError as error:
                raise DemoError(f"{one.tag} over {url}: {error}", "`make serve` shows the server's log") from None
            took.append((time.perf_counter() - began) * 1e3)
    answer = Answer(one.name, results[0], results[1], took[0], took[1])
    if answer.apart > AGREE:
        raise DemoError(f"{one.tag}: HTTP and gRPC differ by {answer.apart:.1e}", "this is a fault: please report it")
    return answer


def _wait_ready(child: subprocess.Popen[bytes], address: Address, log: IO[bytes]) -> None:
    """Return once the server takes requests. Raises DemoError with the end of its log if it does not."""
    from pressroom_client import Client

    deadline = time.monotonic() + READY_SECONDS
    with Client(address.http, timeout=2, retries=0) as client:
        while not client.ready():
            if child.poll() is not None:
                raise DemoError(
                    f"the server stopped:\n{_tail(log)}", "run `make demo` again; it takes other ports then"
                )
            if time.monotonic() > deadline:
                remedy = "`pressroom verify itransformer-etth1` checks an artifact; `make serve` shows the whole log"
                raise DemoError(f"the server is not ready after {READY_SECONDS:.0f} s:\n{_tail(log)}", remedy)
            time.sleep(0.1)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ask the server to finish and wait for it."""
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for probe in (first, second):
            probe.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-LOG_LINES:])


if __name__ == "__main__":
    sys.exit(main())
