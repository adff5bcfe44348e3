"""What every native answer says of itself, as the families' OpenAPI documents describe it (`services.core.call`)."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Timings(BaseModel):
    """Milliseconds per stage; they add up to the total."""

    preprocess_ms: float
    queue_ms: float
    inference_ms: float
    postprocess_ms: float
    total_ms: float


class Explained(BaseModel):
    """Base of the responses: which artifact answered, and how long that took."""

    model: str
    version: str
    digest: str = Field(description="of the artifact that answered, sha256:<hex>")
    request_id: str
    timings: Timings
    batch_rows: int = Field(description="rows of the forward pass that served this request")
