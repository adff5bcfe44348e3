"""What every front end needs to serve: models, gate, shadow, journal, settings."""

from __future__ import annotations

from dataclasses import dataclass

from services.core.gate import Gate
from services.core.journal import Journal
from services.core.repository import Repository
from services.core.settings import Settings
from services.core.shadow import Shadow


@dataclass(frozen=True)
class Serving:
    """The serving state the front ends of one worker share."""

    repository: Repository
    gate: Gate
    shadow: Shadow
    journal: Journal
    settings: Settings
