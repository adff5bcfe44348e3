"""One exception class per error code of the server. The tree they hang in is drawn at the top of `_errors`."""

from __future__ import annotations

from collections.abc import Iterator

from ._errors import (
    APIStatusError,
    APITimeoutError,
    BadRequest,
    Denied,
    NotFound,
    Overloaded,
    PressroomError,
    ServerFault,
    Unavailable,
)


class InvalidJson(BadRequest):
    """The body is not JSON in UTF-8."""

    code = "invalid_json"


class InvalidRequest(BadRequest):
    """A field is missing, unknown or of the wrong type."""

    code = "invalid_request"


class UnsupportedMediaType(BadRequest):
    """The route does not read this content type."""

    code = "unsupported_media_type"


class PayloadTooLarge(BadRequest):
    """The body is larger than the server accepts; send fewer series per call."""

    code = "payload_too_large"


class TooManyRows(BadRequest):
    """More rows than one request may carry; split it."""

    code = "too_many_rows"


class MethodNotAllowed(BadRequest):
    """The route exists, but not with this method."""

    code = "method_not_allowed"


class EmptyBatch(BadRequest):
    """The request holds no series, or a tensor without rows."""

    code = "empty_batch"


class HistoryTooShort(BadRequest):
    """Fewer time steps than the model looks back."""

    code = "history_too_short"


class LengthMismatch(BadRequest):
    """Columns and timestamps of one series differ in length."""

    code = "length_mismatch"


class HorizonTooLong(BadRequest):
    """More steps asked for than the model forecasts."""

    code = "horizon_too_long"


class ImageInvalid(BadRequest):
    """No image, or one that cannot be read: another format, cut short, or not what it says."""

    code = "image_invalid"


class ImageTooLarge(BadRequest):
    """More pixels than the server decodes; nothing was decoded."""

    code = "image_too_large"


class BoxInvalid(BadRequest):
    """A box is reversed, empty, outside the image, or not four finite numbers."""

    code = "box_invalid"


class MaskInvalid(BadRequest):
    """A mask is empty, unreadable or of another size than the image."""

    code = "mask_invalid"


class LabelInvalid(BadRequest):
    """A label or template says nothing, comes twice or is unknown to the model."""

    code = "label_invalid"


class EmptyPrompt(BadRequest):
    """Nothing to continue: an empty prompt, or no messages."""

    code = "empty_prompt"


class ContextLengthExceeded(BadRequest):
    """Prompt and answer together are longer than the model's context."""

    code = "context_length_exceeded"


class NotSupported(BadRequest):
    """Something other servers of the same route do, and this one or this model does not."""

    code = "not_supported"


class ColumnsMissing(BadRequest):
    """A column the model was trained on is not there."""

    code = "columns_missing"


class ColumnsUnexpected(BadRequest):
    """A column the model does not know."""

    code = "columns_unexpected"


class ColumnsReordered(BadRequest):
    """The right columns in an order this model does not accept."""

    code = "columns_reordered"


class ValueNotFinite(BadRequest):
    """A NaN, an infinity or a missing value."""

    code = "value_not_finite"


class ValueNotNumeric(BadRequest):
    """A value that is not a number."""

    code = "value_not_numeric"


class ValueOutOfRange(BadRequest):
    """A number too large for the model's arithmetic, or for its tensor's datatype."""

    code = "value_out_of_range"


class TimestampsInvalid(BadRequest):
    """A timestamp that cannot be read, or two styles mixed."""

    code = "timestamps_invalid"


class TimestampsUnsorted(BadRequest):
    """Timestamps do not increase."""

    code = "timestamps_unsorted"


class TimestampsDuplicate(BadRequest):
    """A timestamp occurs twice."""

    code = "timestamps_duplicate"


class TimestampsGap(BadRequest):
    """A time step is missing between two timestamps."""

    code = "timestamps_gap"


class FrequencyMismatch(BadRequest):
    """The time step is not the one the model was trained on."""

    code = "frequency_mismatch"


class BirthMissing(BadRequest):
    """The record says nowhere when the patient was born."""

    code = "birth_missing"


class BirthConflict(BadRequest):
    """The record holds births at different times."""

    code = "birth_conflict"


class EventBeforeBirth(BadRequest):
    """An event lies before the patient's birth."""

    code = "event_before_birth"


class PredictionBeforeBirth(BadRequest):
    """The prediction time lies before the patient's birth."""

    code = "prediction_before_birth"


class PredictionAfterDeath(BadRequest):
    """The patient died at or before the prediction time."""

    code = "prediction_after_death"


class AgeOutOfRange(BadRequest):
    """The patient would be older than 125 years."""

    code = "age_out_of_range"


class HistoryEmpty(BadRequest):
    """No event is left at or before the prediction time."""

    code = "history_empty"


class HistoryUnknown(BadRequest):
    """Nothing of the events is in the model's dictionary."""

    code = "history_unknown"


class HistoryTooLong(BadRequest):
    """The history has more positions than the model takes."""

    code = "history_too_long"


class TaskNotFound(BadRequest):
    """The model has no such task."""

    code = "task_not_found"


class ParquetInvalid(BadRequest):
    """The file is no parquet file in MEDS layout."""

    code = "parquet_invalid"


class TensorMissing(BadRequest):
    """A required input tensor is not there."""

    code = "tensor_missing"


class TensorUnexpected(BadRequest):
    """An input tensor the model does not have."""

    code = "tensor_unexpected"


class TensorDtype(BadRequest):
    """An input tensor of the wrong datatype."""

    code = "tensor_dtype"


class TensorShape(BadRequest):
    """An input tensor of the wrong shape."""

    code = "tensor_shape"


class TensorSize(BadRequest):
    """An input tensor whose bytes do not fill its shape."""

    code = "tensor_size"


class OutputUnknown(BadRequest):
    """A requested output the model does not have."""

    code = "output_unknown"


class Unauthenticated(Denied):
    """No API key was sent, or one the server does not know."""

    code = "unauthenticated"


class PermissionDenied(Denied):
    """The key lacks the scope this call needs."""

    code = "permission_denied"


class TlsRequired(Denied):
    """Health records are taken over TLS only."""

    code = "tls_required"


class ModelNotFound(NotFound):
    """No model of this name is served; `client.models()` lists what is."""

    code = "model_not_found"


class VersionNotFound(NotFound):
    """The model is served, this version is not."""

    code = "version_not_found"


class RouteNotFound(NotFound):
    """The server has no such route or call."""

    code = "route_not_found"


class QueueFull(Overloaded):
    """The model's queue is full."""

    code = "queue_full"


class RateLimited(Overloaded):
    """The key has used up its requests for now."""

    code = "rate_limited"


class TooManyInFlight(Overloaded):
    """The server is handling as many requests at once as it may."""

    code = "too_many_in_flight"


class ModelNotReady(Unavailable):
    """The model is loading or failed to load."""

    code = "model_not_ready"


class ShuttingDown(Unavailable):
    """The server finishes what it accepted and takes nothing new."""

    code = "shutting_down"


class CircuitOpen(Unavailable):
    """The model failed repeatedly and is given a pause."""

    code = "circuit_open"


class LoadFailed(ServerFault):
    """The server could not load an artifact; what it served before it still serves."""

    code = "load_failed"


class InferenceFailed(ServerFault):
    """The model raised while computing."""

    code = "inference_failed"


class Internal(ServerFault):
    """An unforeseen failure in the server."""

    code = "internal"


class Cancelled(APIStatusError):
    """The request was withdrawn before it was answered."""

    code = "cancelled"


class DeadlineExceeded(APIStatusError, APITimeoutError):
    """The server gave the request up because its deadline passed."""

    code = "deadline_exceeded"
    phase = "server"


def _below(kind: type[PressroomError]) -> Iterator[type[PressroomError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


BY_CODE: dict[str, type[PressroomError]] = {
    kind.code: kind for kind in _below(APIStatusError) if "code" in kind.__dict__
}
