"""JSON schemas of the documents that belong to no family: the protocol's, the list of models, the error envelope."""

from __future__ import annotations

from typing import Any

from services.core.errors import CODES
from services.core.tensors import DTYPES

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
WHOLE: Json = {"type": "integer"}
SIZE: Json = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
NUMBER: Json = {"type": "number"}
PARAMETERS: Json = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def listed(items: Json, **more: Any) -> Json:
    """A list of such items."""
    return {"type": "array", "items": items, **more}


def record(required: Json, optional: Json | None = None) -> Json:
    """An object with these fields; more may follow in later versions."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def ref(name: str) -> Json:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _error() -> Json:
    perhaps = {"type": ["string", "null"]}
    fields = {
        "code": {"type": "string", "enum": list(CODES)},
        "message": TEXT,
        "field": perhaps,
        "hint": perhaps,
        "request_id": TEXT,
    }
    return record({"error": record(fields, {"retry_after_ms": {"type": "integer", "minimum": 0}})})


def _infer_request() -> Json:
    size = {"type": "integer", "minimum": 0, "description": "bytes behind the JSON header"}
    header = {
        "name": {"type": "string", "minLength": 1},
        "datatype": {"type": "string", "enum": list(DTYPES)},
        "shape": listed(SIZE, maxItems=8),
    }
    data = {
        "data": listed({}),
        "parameters": {"type": "object", "properties": {"binary_data_size": size}},
    }
    output = record({"name": TEXT}, {"parameters": {"type": "object", "properties": {"binary_data": FLAG}}})
    return record(
        {"inputs": listed(record(header, data), minItems=1)},
        {
            "id": {"type": ["string", "integer", "null"]},
            "outputs": {"type": ["array", "null"], "items": output},
            "parameters": {"type": "object", "properties": {"binary_data_output": FLAG}},
        },
    )


def _model_entry(more: Json | None = None) -> Json:
    """more: fields beside those of the list."""
    certificate = record({"verdict": TEXT, "max_abs": NUMBER, "tolerance": {"type": "object"}, "cases": WHOLE})
    spec = record({"name": TEXT, "dtype": TEXT, "shape": listed({"type": ["integer", "string"]})})
    texts = ("id", "owned_by", "version", "family", "architecture", "digest")
    return record(
        {
            **dict.fromkeys(texts, TEXT),
            "object": {"const": "model"},
            "created": WHOLE,
            "versions": listed(TEXT),
            "certificate": certificate,
            "signature": record({"inputs": listed(spec), "outputs": listed(spec)}),
            "settings": {"type": "object"},
            **(more or {}),
        }
    )


def _model_details() -> Json:
    example = record({"request": {"type": "object"}, "response": {"type": "object"}})
    return _model_entry({"manifest": {"type": "object"}, "parity": {"type": "object"}, "example": example})


_TENSOR = record({"name": TEXT, "datatype": TEXT, "shape": listed(WHOLE)})
_CONFIG = record({"name": TEXT, "data_type": TEXT, "dims": listed(WHOLE)})
_OUTPUT = record(
    {"name": TEXT, "datatype": TEXT, "shape": listed(SIZE)}, {"data": listed({}), "parameters": PARAMETERS}
)
_FRACTION = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_VERSION = {"type": ["string", "null"]}
_LOAD: Json = {"version": _VERSION, "canary_weight": _FRACTION, "shadow_fraction": _FRACTION}


def _command(parameters: Json) -> Json:
    return record({}, {"parameters": {"type": "object", "properties": parameters, "additionalProperties": False}})


SCHEMAS: dict[str, Json] = {
    "Error": _error(),
    "ModelEntry": _model_entry(),
    "ModelDetails": _model_details(),
    "ModelList": record({"object": {"const": "list"}, "data": listed(ref("ModelEntry"))}),
    "ServerMetadata": record({"name": TEXT, "version": TEXT, "extensions": listed(TEXT)}),
    "Live": record({"live": FLAG}),
    "Ready": record({"ready": FLAG}),
    "ModelReady": record({"name": TEXT, "ready": FLAG}),
    "ModelMetadata": record(
        {
            "name": TEXT,
            "versions": listed(TEXT),
            "platform": TEXT,
            "inputs": listed(_TENSOR),
            "outputs": listed(_TENSOR),
        }
    ),
    "ModelConfig": record(
        {
            "name": TEXT,
            "platform": TEXT,
            "backend": TEXT,
            "max_batch_size": WHOLE,
            "input": listed(_CONFIG),
            "output": listed(_CONFIG),
        },
        {"dynamic_batching": record({"max_queue_delay_microseconds": WHOLE})},
    ),
    "InferRequest": _infer_request(),
    "InferResponse": record(
        {"model_name": TEXT, "model_version": TEXT, "id": TEXT, "parameters": PARAMETERS, "outputs": listed(_OUTPUT)}
    ),
    "IndexRequest": record({}, {"ready": {}}),
    "Index": listed(
        record({"name": TEXT, "version": TEXT, "state": {"enum": ["READY", "UNAVAILABLE"]}, "reason": TEXT})
    ),
    "LoadCommand": _command(_LOAD),
    "UnloadCommand": _command({"version": _VERSION}),
    "Loaded": record({"name": TEXT, "version": TEXT, "digest": TEXT, "state": {"const": "READY"}}),
    "Unloaded": record({"name": TEXT, "version": _VERSION, "state": {"const": "UNAVAILABLE"}}),
}
