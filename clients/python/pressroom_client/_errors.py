"""Everything the client raises, one tree; pick the `except` line from it.

PressroomError
├── UsageError (also a ValueError)       the call cannot be made as written; nothing was sent
├── UnexpectedAnswer                     something answered, but not in the protocol
├── APIConnectionError                   no answer: refused, reset, unknown host, TLS
│   └── APITimeoutError                  a timeout passed; `.phase`: connect, read, write, pool, total, server
│       └── DeadlineExceeded             the server gave the request up in time (also an APIStatusError)
└── APIStatusError                       the server answered with an error
    ├── BadRequest                       change the request
    │   ├── InvalidJson  InvalidRequest  UnsupportedMediaType  PayloadTooLarge  TooManyRows  MethodNotAllowed
    │   ├── EmptyBatch  HistoryTooShort  LengthMismatch  HorizonTooLong
    │   ├── ColumnsMissing  ColumnsUnexpected  ColumnsReordered
    │   ├── ValueNotFinite  ValueNotNumeric  ValueOutOfRange
    │   ├── EmptyPrompt  ContextLengthExceeded  NotSupported
    │   ├── ImageInvalid  ImageTooLarge  BoxInvalid  MaskInvalid  LabelInvalid
    │   ├── TimestampsInvalid  TimestampsUnsorted  TimestampsDuplicate  TimestampsGap  FrequencyMismatch
    │   ├── BirthMissing  BirthConflict  EventBeforeBirth  PredictionBeforeBirth  PredictionAfterDeath  AgeOutOfRange
    │   ├── HistoryEmpty  HistoryUnknown  HistoryTooLong  TaskNotFound  ParquetInvalid
    │   └── TensorMissing  TensorUnexpected  TensorDtype  TensorShape  TensorSize  OutputUnknown
    ├── Denied                           use a key that may do this
    │   └── Unauthenticated  PermissionDenied  TlsRequired
    ├── NotFound                         ask for something that exists
    │   └── ModelNotFound  VersionNotFound  RouteNotFound
    ├── Overloaded                       come back after `.retry_after` seconds
    │   └── QueueFull  RateLimited  TooManyInFlight
    ├── Unavailable                      come back later
    │   └── ModelNotReady  ShuttingDown  CircuitOpen
    ├── ServerFault                      not your doing; report `.request_id`
    │   └── InferenceFailed  Internal  LoadFailed
    └── Cancelled                        the request was withdrawn before it was answered

A code this version does not know raises the group its status belongs to, with `.code` as the server sent it.
"""

from __future__ import annotations

from typing import Any


class PressroomError(Exception):
    """Base of everything the client raises.

    code         stable word to branch on, for example "history_too_short"
    message      what was received and what was expected, one sentence
    field        the part of the request that is wrong, or None
    hint         what to do about it, or None
    request      what was attempted: method and address
    request_id   the id both sides log for this call, or None if nothing was sent
    http_status  status of the answer over HTTP, else None
    grpc_status  name of the answer's status over gRPC ("INVALID_ARGUMENT"), else None
    retry_after  seconds the server asks to wait before the next attempt, else None
    """

    code: str = "client_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        hint: str | None = None,
        request: str | None = None,
        request_id: str | None = None,
        http_status: int | None = None,
        grpc_status: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.message = message
        self.field = field
        self.hint = hint
        self.request = request
        self.request_id = request_id
        self.http_status = http_status
        self.grpc_status = grpc_status
        self.retry_after = retry_after

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if self.field and self.field not in self.message:
            lines[0] += f" [field: {self.field}]"
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        answer = f"HTTP {self.http_status}" if self.http_status else self.grpc_status
        where = [self.request, answer, self.request_id and f"request id {self.request_id}"]
        if any(where):
            lines.append("  request: " + ", ".join(part for part in where if part))
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions with keyword arguments do not survive pickling by themselves, and process pools pickle them.
        return _revive, (type(self), self.args, self.__dict__)


def _revive(kind: type[PressroomError], args: tuple[Any, ...], state: dict[str, Any]) -> PressroomError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(PressroomError, ValueError):
    """The call cannot be made as written; nothing was sent."""

    code = "usage"


class UnexpectedAnswer(PressroomError):
    """The answer is not in the protocol: is this address a Pressroom server?"""

    code = "unexpected_answer"


class APIConnectionError(PressroomError):
    """No answer came: the connection was refused, reset or never made."""

    code = "connection_failed"


class APITimeoutError(APIConnectionError):
    """A timeout passed. `phase`: connect, read, write, pool (one attempt), total (the whole call), server."""

    code = "timeout"
    phase: str = "total"


class APIStatusError(PressroomError):
    """The server answered with an error."""

    code = "status_error"


class BadRequest(APIStatusError):
    """The request is wrong and will be wrong again; change it."""


class Denied(APIStatusError):
    """The key is missing, unknown, or not allowed to do this."""


class NotFound(APIStatusError):
    """The server has no such thing."""


class Overloaded(APIStatusError):
    """The server has more work than it accepts; `.retry_after` says when to come back."""


class Unavailable(APIStatusError):
    """The server cannot answer now."""


class ServerFault(APIStatusError):
    """The server failed; nothing about the request explains it. Report `.request_id`."""
