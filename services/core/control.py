"""An administrator's commands, seen by every worker of a server.

The worker that receives a command carries it out, then writes it to a file in the directory the server's workers
share; the others follow within `POLL_SECONDS`. A worker that starts later (after a crash, say) follows them all.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from services.core.errors import ApiError

POLL_SECONDS = 0.5
_FILE = "commands.jsonl"
_KNOWN = {
    "load": {"version", "canary_weight", "shadow_fraction"},
    "unload": {"version", "unload_dependents"},  # Triton's clients send the latter; no model here has dependents
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """Load or unload a version; a load may give it a share of the traffic."""

    operation: Literal["load", "unload"]
    name: str
    version: str | None = None
    canary_weight: float | None = None
    shadow_fraction: float | None = None


def read_command(operation: Literal["load", "unload"], name: str, parameters: Mapping[str, Any]) -> Command:
    """A command from a request's parameters. Raises ApiError naming the parameter that is unusable."""
    known = _KNOWN[operation]
    if unknown := sorted(parameters.keys() - known):
        hint = f"known: {', '.join(sorted(known))}"
        raise ApiError("invalid_request", f"unknown parameter {unknown[0][:60]!r}", field="parameters", hint=hint)
    version = parameters.get("version")
    if version is not None and not isinstance(version, str):
        raise ApiError("invalid_request", "version must be a string", field="parameters.version")
    return Command(
        operation=operation,
        name=name,
        version=version or None,
        canary_weight=_fraction(parameters, "canary_weight"),
        shadow_fraction=_fraction(parameters, "shadow_fraction"),
    )


def _fraction(parameters: Mapping[str, Any], name: str) -> float | None:
    value = parameters.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        raise ApiError("invalid_request", f"{name} must be a number from 0 to 1", field=f"parameters.{name}")
    return value


class CommandLog:
    """The shared file; without a shared directory (one process, no supervisor) it holds nothing."""

    def __init__(self) -> None:
        directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        self._path = Path(directory) / _FILE if directory else None
        self._seen = 0  # bytes

    def write(self, command: Command) -> None:
        """Append a command this worker has carried out."""
        if self._path is None:
            return
        line = json.dumps({"worker": os.getpid(), **asdict(command)}) + "\n"
        with self._path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(line)

    def unread(self) -> list[Command]:
        """Commands of other workers since the last call, oldest first."""
        if self._path is None or not self._path.exists():
            return []
        with self._path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            file.seek(self._seen)
            lines = file.readlines()
            self._seen = file.tell()
        entries = [json.loads(line) for line in lines]
        return [Command(**e) for e in entries if e.pop("worker") != os.getpid()]
