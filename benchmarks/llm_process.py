"""A generator's process seen from the parent: started, asked, ended, with everything it left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from select import select
from time import monotonic
from typing import Any

from benchmarks.server import ROOT

START_SECONDS = 900.0  # vLLM compiles on its first start
ANSWER_SECONDS = 300.0
STOP_SECONDS = 20.0
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}


class PeerError(RuntimeError):
    """A generator did not start, answer, or ended; the message says which and how."""


class PeerProcess:
    """Starts at once and loads in the background; `ready` waits for it."""

    def __init__(self, name: str, command: Sequence[str], settings: Mapping[str, str]) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- closed in `stop`
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def ready(self) -> str:
        """Its versions. Raises PeerError."""
        return str(self._read(START_SECONDS)["versions"])

    def ask(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a task. Raises PeerError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        answer = self._read(ANSWER_SECONDS)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def stop(self) -> None:
        """End it by closing its input; after a while, end the whole session it leads."""
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        until = monotonic() + seconds
        if not select([self._process.stdout], [], [], max(0.0, until - monotonic()))[0]:
            raise PeerError(f"{self.name}: no answer within {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self) -> PeerError:
        code = self._process.wait()
        self._log.seek(0)
        said = [line.strip() for line in self._log if line.strip()]
        return PeerError(f"{self.name}: ended with {code}: {said[-1][:300] if said else 'no word why'}")
