"""Debian's Prometheus and Alertmanager, started for a test and ended with it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = {name: shutil.which(name) for name in ("prometheus", "prometheus-alertmanager")}


@contextmanager
def program(command: list[Any], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
