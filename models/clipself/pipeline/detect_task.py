"""Find labels in an image: with the artifact's detector, or with windows of several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.boxes import as_json
from models.clipself.pipeline.detector import Judged, Selection, fuse, select
from models.clipself.pipeline.engine import Seen, Wanted
from models.clipself.pipeline.network_input import NetworkInput
from models.clipself.pipeline.request import choice, flag, refused, share, whole
from models.clipself.pipeline.spec import TRANSFER, Fusion
from models.clipself.pipeline.tasks import Asked, Task
from models.clipself.pipeline.windows import Found, pick, windows
from models.errors import InputError

Json = dict[str, Any]
Array = npt.NDArray[np.float32]

GRID_THRESHOLD, GRID_KEPT = 0.5, 50


class Detect(Task):
    """What is where."""

    name = "detect"
    background = True

    def __init__(self, asked: Asked, image: NetworkInput) -> None:
        super().__init__(asked, image)
        request, rules = asked.request, asked.spec.detector
        self._grid = choice(request, "proposals", ("model", "grid")) == "grid"
        if rules is None and not self._grid:
            raise InputError(
                "not_supported",
                "this artifact has no detector: it cannot propose boxes",
                field="proposals",
                hint='serve an F-ViT artifact; or send boxes to /v1/regions; or ask for proposals: "grid"',
            )
        overlap = share(request, "overlap", None)
        if self._grid and overlap is not None:
            raise refused("overlap", "windows are thinned by Soft-NMS, which takes no overlap", "leave it out")
        threshold = GRID_THRESHOLD if self._grid or rules is None else rules.threshold
        kept = GRID_KEPT if self._grid or rules is None else rules.kept
        self._selection = Selection(
            thresholds=self._thresholds(share(request, "threshold", threshold) or 0.0),
            overlap=overlap if overlap is not None else (0.0 if rules is None else rules.overlap),
            kept=whole(request, "max_detections", kept) or kept,
            agnostic=flag(request, "class_agnostic", False),
        )
        self._windows = windows(image.original[1], image.original[0]) if self._grid else None

    def wanted(self, labels: Array) -> Wanted:
        self._labels = labels
        if self._windows is not None:
            return Wanted(labels=labels, boxes=self.image.inside(self._windows))
        return Wanted(labels=labels, proposals=self.image.valid)

    def write(self, seen: Seen) -> Json:
        if self._windows is not None:
            assert seen.regions is not None
            wanted = self._selection
            found = pick(
                self._windows, self.scores(seen.regions), wanted.thresholds, wanted.kept, agnostic=wanted.agnostic
            )
            fusion = "none"
        else:
            assert seen.judged is not None
            found, fusion = self._select(seen.judged)
        return {
            "detections": self._written(found),
            "proposals": "grid" if self._grid else "model",
            "fusion": fusion,
        }

    def _select(self, judged: Judged) -> tuple[Found, str]:
        rules = self.asked.spec.detector
        assert rules is not None
        kind, fusion, base = self._fusion()
        scores = fuse(judged, self._labels, base, fusion)
        return select(rules, judged, scores, self.image.valid, self.image.factors, self._selection), kind

    def _fusion(self) -> tuple[str, Fusion, npt.NDArray[np.bool_]]:
        """As in training where the artifact knows every label; else the paper's transfer setting."""
        spec, rules = self.asked.spec, self.asked.spec.detector
        assert rules is not None
        seen = dict(zip(spec.vocabulary, spec.base, strict=True))
        base = np.array([*(seen.get(name, False) for name in self.names), True])
        if rules.transfer:
            return "transfer", rules.fusion, base
        if all(name in seen for name in self.names) and self.asked.labels.templates == spec.templates:
            return "trained", rules.fusion, base
        return "transfer", TRANSFER, base

    def _thresholds(self, threshold: float) -> Array:
        sent = self.asked.request.get("thresholds")
        found = dict.fromkeys(self.names, threshold)
        if sent is not None:
            if not isinstance(sent, dict):
                raise refused("thresholds", "thresholds must be an object: label -> number from 0 to 1")
            for name in sent:
                if name not in found:
                    raise InputError(
                        "label_invalid",
                        f"thresholds name {name[:60]!r}, which is none of the labels",
                        field="thresholds",
                    )
                found[name] = share(sent, name, threshold) or 0.0
        return np.array(list(found.values()), dtype=np.float32)

    def _written(self, found: Found) -> list[Json]:
        return [
            {"label": self.names[label], "score": float(score), "box": as_json(box)}
            for box, score, label in zip(found.boxes, found.scores, found.labels, strict=True)
        ]
