"""A served model without artifact or arithmetic, for tests of what is written down about requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from services.core.call import Call


@dataclass
class FakeModel:
    """What calls say about their model. `private`: its requests hold personal data."""

    name: str = "m"
    version: str = "1"
    digest: str = "sha256:" + "0" * 64
    private: bool = False
    artifact: Any = field(default_factory=lambda: SimpleNamespace(tag="m:1"))


def finished_call(**attributes: Any) -> Call:
    """A call that was answered: 1 ms preprocessing, 2 ms queue, 4 ms inference, 8 ms postprocessing."""
    call = Call("/v1/forecast", "http", "request-1")
    call.model = FakeModel()
    call.ran(call.started + 0.001, call.started + 0.003, call.started + 0.007, 5)
    call.finished = call.started + 0.015
    for name, value in attributes.items():
        setattr(call, name, value)
    return call
