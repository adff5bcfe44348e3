"""The recipes are no installed package: they run in a clone, and so do their tests; on one thread, as by command."""

from __future__ import annotations

import sys
from pathlib import Path

from one_thread import one_thread  # noqa: F401 (a fixture of this folder)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
