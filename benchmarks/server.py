"""A gateway of the benchmarks' own, with a model store of its own."""

from __future__ import annotations

import os
from pathlib import Path

from pressroom.own_server import HOST, Gateway, ServerError, free_ports, gateway

__all__ = ["HOME", "HOST", "ROOT", "Gateway", "ServerError", "free_ports", "gateway", "use_own_store"]
ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "out" / "benchmarks" / "bentoml"


def use_own_store() -> None:
    """Point this process and its children at the benchmarks' model store. Call before anything imports BentoML."""
    HOME.mkdir(parents=True, exist_ok=True)
    os.environ["BENTOML_HOME"] = str(HOME)
    os.environ["BENTOML_DO_NOT_TRACK"] = "True"
