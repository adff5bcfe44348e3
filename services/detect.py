"""CLIPSelf and F-ViT: regions, detections, maps and whole images in the caller's words.

Start it alone with `pressroom serve detect` or `bentoml serve services.detect:Detect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from export.artifact import Artifact, ArtifactError
from models.clipself.pipeline.request import TaskName
from models.clipself.pipeline.spec import DetectSpec
from services.core.app import ServiceBase, pressroom_service
from services.core.model import Task
from services.core.settings import Settings
from services.detection import schemas
from services.detection.model import ROUTES, DetectModel


def _task_of(name: TaskName, request: type[Any], response: type[Any]) -> Task:
    return Task(
        route=ROUTES[name],
        request=request,
        response=response,
        example=schemas.EXAMPLES[name],
        files=("image",),
        lists=("labels", "templates", "boxes", "masks"),
    )


class DetectFamily:
    """Loads image models."""

    name: ClassVar[str] = "detect"
    tasks: ClassVar[Sequence[Task]] = (
        _task_of("regions", schemas.RegionsRequest, schemas.RegionsResponse),
        _task_of("detect", schemas.DetectionsRequest, schemas.DetectionsResponse),
        _task_of("segment", schemas.SegmentRequest, schemas.SegmentResponse),
        _task_of("classify", schemas.ClassifyRequest, schemas.ClassifyResponse),
    )

    def load(self, artifact: Artifact, settings: Settings) -> DetectModel:
        try:
            spec = DetectSpec.from_settings(artifact.manifest.settings)
        except (KeyError, ValueError, TypeError) as fault:
            raise ArtifactError(
                f"{artifact.tag}: settings are not an image model's: {fault}", "export it again"
            ) from None
        return DetectModel(artifact, spec, settings)


@pressroom_service(DetectFamily())
class Detect(ServiceBase):
    """Open-vocabulary detection from verified artifacts of CLIPSelf and F-ViT."""
