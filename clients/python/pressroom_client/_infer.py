"""What an inference answer says beside its tensors: scalars by name, some of which every answer of Pressroom has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._types import InferResult, Timings

_NAMED = {"request_id", "digest", "batch_rows", *Timings.__dataclass_fields__}


def result(
    outputs: dict[str, np.ndarray],
    model: str | None,
    version: str | None,
    parameters: Mapping[str, Any] | None,
    request_id: str,
) -> InferResult:
    """Sort the answer's parameters into the result's fields; the rest stays in `.parameters`."""
    said = dict(parameters or {})
    return InferResult(
        outputs=outputs,
        model=model or "",
        version=version or None,
        digest=said.get("digest"),
        request_id=said.get("request_id") or request_id,
        timings=Timings.parse(said),
        batch_rows=said.get("batch_rows"),
        parameters={name: value for name, value in said.items() if name not in _NAMED},
    )
