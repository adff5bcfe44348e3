"""Every forecasting architecture by name. A new one adds its folder under `models/` and one line here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from models.forecasting.architecture import Architecture

ARCHITECTURES: dict[str, str] = {  # name -> module that holds ARCHITECTURE; what wraps another network stands before it
    "lift": "models.lift",
    "arm": "models.arm",
    "itransformer": "models.itransformer",
    "card": "models.card",
    "patchtst": "models.patchtst",
    "dlinear": "models.dlinear",
}


class UnknownArchitectureError(LookupError):
    """No architecture of that name; the message lists the known ones."""


def architecture(name: str) -> Architecture:
    """The record of that name, imported on first use (this is what loads torch)."""
    if name not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise UnknownArchitectureError(f'architecture: got "{name}", expected one of {known}')
    found: Architecture = import_module(ARCHITECTURES[name]).ARCHITECTURE
    return found


def detect(state_keys: Iterable[str]) -> str | None:
    """The architecture whose marker tensor is among these official names, behind any prefix; None if there is none."""
    keys = list(state_keys)
    for name in ARCHITECTURES:
        marker = architecture(name).marker
        if any(key == marker or key.endswith(f".{marker}") for key in keys):
            return name
    return None
