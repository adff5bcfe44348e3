"""What the tests of detectors share: names, texts, a store opened by hand, requests to a server."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from live_server import LiveServer
from tiny_detector import DETECTOR

from export.artifact import Artifact, read_artifact
from models.dna_gpt.detector import DetectorSpec
from services.core.settings import Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own, when its services are imported
    from services.text_detect import ROUTE, TextDetectFamily, TextDetectModel

GENERATOR = "tiny-fp32"
Json = dict[str, Any]

PROSE = (
    "The committee met in the old town hall on a rainy Tuesday evening, and although nobody had expected much of the "
    "agenda, three proposals were passed before supper."
)


@dataclass(frozen=True)
class Store:
    """Artifacts of a home that is not this process's own."""

    home: Path

    def read(self, name: str, version: str = "1") -> Artifact:
        return read_artifact(self.home / "models" / name / version)

    def spec(self, version: str) -> DetectorSpec:
        return DetectorSpec.from_settings(self.read(DETECTOR, version).manifest.settings)

    def load(self, version: str = "2", family: TextDetectFamily | None = None, **settings: Any) -> TextDetectModel:
        """The detector, loaded; tests patch where its generator is looked for (the fixture `found_here`)."""
        return (family or TextDetectFamily()).load(self.read(DETECTOR, version), Settings(**settings))


def ask(server: LiveServer, **body: Any) -> httpx.Response:
    return server.post(ROUTE, json={"model": DETECTOR, **body}, timeout=60)


def answer(server: LiveServer, **body: Any) -> Json:
    """Its answer, which must be one."""
    response = ask(server, **body)
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


def only_text(document: Json) -> Json:
    (text,) = document["texts"]
    found: Json = text
    return found
