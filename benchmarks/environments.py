"""Where programs that need other packages than ours live: environments of their own under out/peers.

Made once, and again when a pin changes; needs a package index. What cannot be made is a PeerMissing, reported by name.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.server import ROOT

HOME = ROOT / "out" / "peers"
_SECONDS = 3600


class PeerMissing(RuntimeError):  # noqa: N818 -- a finding, not a fault
    """An environment could not be made; the message says at which command, and its last line."""


def environment(name: str, packages: Sequence[str], unwanted: Sequence[str] = ()) -> Path:
    """The interpreter of an environment with these packages, less some that spoil it. Raises PeerMissing."""
    home = HOME / name
    python, stamp = home / "bin" / "python", home / "complete"
    wanted = " ".join(packages)
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        run(sys.executable, "-m", "venv", str(home))
        run(str(python), "-m", "pip", "install", "--quiet", *packages)
        if unwanted:
            run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *unwanted)
        stamp.write_text(wanted)
    return python


def run(*command: str) -> str:
    """What a command printed. Raises PeerMissing."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise PeerMissing(f"{Path(command[0]).name} {' '.join(command[1:4])}: {said[-1][:300] if said else 'failed'}")
    return done.stdout
