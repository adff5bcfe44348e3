"""Every error code of the server arrives as its own exception, on both transports, and reads well."""

from __future__ import annotations

import inspect
import json
import pickle
import re

import pressroom_client
import pytest
from pressroom_client import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    BadRequest,
    Client,
    DeadlineExceeded,
    Denied,
    HistoryTooShort,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    PressroomError,
    ServerFault,
    Unavailable,
    UnexpectedAnswer,
    UsageError,
    _errors,
)
from pressroom_client._error_codes import BY_CODE
from tiny_service import Behaviour, RefusalError

# The server's closed list: code -> (HTTP status, gRPC status, group).
BAD, GONE = (422, "INVALID_ARGUMENT", BadRequest), (404, "NOT_FOUND", NotFound)
CODES: dict[str, tuple[int, str, type[PressroomError]]] = {
    "invalid_json": (400, "INVALID_ARGUMENT", BadRequest),
    "invalid_request": BAD,
    "empty_batch": BAD,
    "history_too_short": BAD,
    "columns_missing": BAD,
    "columns_unexpected": BAD,
    "columns_reordered": BAD,
    "length_mismatch": BAD,
    "value_not_finite": BAD,
    "value_not_numeric": BAD,
    "value_out_of_range": BAD,
    "timestamps_invalid": BAD,
    "timestamps_unsorted": BAD,
    "timestamps_duplicate": BAD,
    "timestamps_gap": BAD,
    "frequency_mismatch": BAD,
    "horizon_too_long": BAD,
    "image_invalid": BAD,
    "image_too_large": BAD,
    "box_invalid": BAD,
    "mask_invalid": BAD,
    "label_invalid": BAD,
    "empty_prompt": BAD,
    "not_supported": BAD,
    "context_length_exceeded": (400, "INVALID_ARGUMENT", BadRequest),
    "birth_missing": BAD,
    "birth_conflict": BAD,
    "event_before_birth": BAD,
    "prediction_before_birth": BAD,
    "prediction_after_death": BAD,
    "age_out_of_range": BAD,
    "history_empty": BAD,
    "history_unknown": BAD,
    "history_too_long": BAD,
    "task_not_found": BAD,
    "parquet_invalid": BAD,
    "tensor_missing": BAD,
    "tensor_unexpected": BAD,
    "tensor_dtype": BAD,
    "tensor_shape": BAD,
    "tensor_size": BAD,
    "output_unknown": BAD,
    "unauthenticated": (401, "UNAUTHENTICATED", Denied),
    "permission_denied": (403, "PERMISSION_DENIED", Denied),
    "tls_required": (403, "PERMISSION_DENIED", Denied),
    "model_not_found": GONE,
    "version_not_found": GONE,
    "route_not_found": (404, "UNIMPLEMENTED", NotFound),
    "method_not_allowed": (405, "UNIMPLEMENTED", BadRequest),
    "unsupported_media_type": (415, "INVALID_ARGUMENT", BadRequest),
    "payload_too_large": (413, "RESOURCE_EXHAUSTED", BadRequest),
    "too_many_rows": BAD,
    "queue_full": (429, "RESOURCE_EXHAUSTED", Overloaded),
    "rate_limited": (429, "RESOURCE_EXHAUSTED", Overloaded),
    "too_many_in_flight": (429, "RESOURCE_EXHAUSTED", Overloaded),
    "load_failed": (409, "FAILED_PRECONDITION", ServerFault),
    "circuit_open": (503, "UNAVAILABLE", Unavailable),
    "deadline_exceeded": (504, "DEADLINE_EXCEEDED", APITimeoutError),
    "cancelled": (499, "CANCELLED", APIStatusError),
    "model_not_ready": (503, "UNAVAILABLE", Unavailable),
    "shutting_down": (503, "UNAVAILABLE", Unavailable),
    "inference_failed": (500, "INTERNAL", ServerFault),
    "internal": (500, "INTERNAL", ServerFault),
}


def refused(client: Client, server: Behaviour, refusal: RefusalError) -> PressroomError:
    server.refusals.append(refusal)
    with pytest.raises(PressroomError) as caught:
        client.server(retries=0)
    return caught.value


def camel(code: str) -> str:
    return "".join(word.capitalize() for word in code.split("_"))


def test_there_is_one_class_for_every_code() -> None:
    assert {code: kind.__name__ for code, kind in BY_CODE.items()} == {code: camel(code) for code in CODES}


@pytest.mark.parametrize("code", CODES)
def test_a_code_arrives_as_its_class(code: str, client: Client, server: Behaviour, transport: str) -> None:
    http, grpc, group = CODES[code]
    said = {"message": "Got x, expected y.", "field": "series[0]", "hint": "Send y."}
    error = refused(client, server, RefusalError(code, http, grpc, **said))
    assert type(error) is BY_CODE[code]
    assert isinstance(error, group)
    assert isinstance(error, APIStatusError)
    assert (error.code, error.message, error.field, error.hint) == (code, *said.values())
    assert (error.http_status, error.grpc_status) == ((http, None) if transport == "http" else (None, grpc))
    assert error.request_id == server.seen[-1].headers["x-request-id"]


@pytest.mark.parametrize(
    ("http", "grpc", "group"),
    [
        (418, "INVALID_ARGUMENT", BadRequest),
        (401, "UNAUTHENTICATED", Denied),
        (404, "NOT_FOUND", NotFound),
        (429, "RESOURCE_EXHAUSTED", Overloaded),
        (502, "UNAVAILABLE", Unavailable),
        (504, "DEADLINE_EXCEEDED", DeadlineExceeded),
        (500, "DATA_LOSS", ServerFault),
    ],
)
def test_a_code_of_a_newer_server_raises_its_group(
    http: int, grpc: str, group: type[PressroomError], client: Client, server: Behaviour
) -> None:
    error = refused(client, server, RefusalError("brand_new", http, grpc))
    assert (type(error), error.code) == (group, "brand_new")


@pytest.mark.parametrize("transport", ["http"])
def test_a_page_that_is_not_ours_is_quoted(client: Client, server: Behaviour) -> None:
    error = refused(client, server, RefusalError.bare(502, b"<html>\n  Bad gateway </html>" + b"x" * 999))
    assert (type(error), error.code) == (Unavailable, "http_502")
    assert error.message.startswith("the server answered 502: <html> Bad gateway </html>")
    assert len(error.message) < 260


@pytest.mark.parametrize("transport", ["http"])
def test_an_error_in_plain_words_as_other_servers_send_is_kept(client: Client, server: Behaviour) -> None:
    error = refused(client, server, RefusalError.bare(400, json.dumps({"error": "no such tensor"}).encode()))
    assert (type(error), error.message) == (BadRequest, "no such tensor")


@pytest.mark.parametrize("transport", ["http"])
@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b"[1]"])
def test_an_answer_that_is_not_the_protocol_is_named_so(body: bytes, client: Client, server: Behaviour) -> None:
    assert isinstance(refused(client, server, RefusalError.bare(200, body)), UnexpectedAnswer)


@pytest.mark.parametrize("transport", ["http"])
@pytest.mark.parametrize("call", ["forecast", "infer"])
def test_a_post_answered_off_the_protocol_is_named_so(call: str, client: Client, server: Behaviour) -> None:
    server.refusals.append(RefusalError.bare(200, b'{"series": 1, "outputs": 1}'))
    ask = {"forecast": lambda: client.forecast({"a": [1.0]}), "infer": lambda: client.infer("counter", {})}
    with pytest.raises(UnexpectedAnswer) as caught:
        ask[call]()
    assert caught.value.request_id


@pytest.mark.parametrize("transport", ["http"])
def test_a_redirect_says_where_to_go(client: Client, server: Behaviour) -> None:
    error = refused(client, server, RefusalError.bare(308, headers={"location": "https://other.example/v2"}))
    assert isinstance(error, UnexpectedAnswer)
    assert "https://other.example/v2" in str(error)


@pytest.mark.parametrize("transport", ["grpc"])
@pytest.mark.parametrize(
    ("status", "details", "kind"),
    [
        ("UNAVAILABLE", "Socket closed", APIConnectionError),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", APITimeoutError),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (9 vs. 4)", PayloadTooLarge),
        ("RESOURCE_EXHAUSTED", "busy", Overloaded),
        ("UNIMPLEMENTED", "Method not found!", NotFound),
    ],
)
def test_a_grpc_status_without_our_envelope_is_mapped_by_itself(
    status: str, details: str, kind: type[PressroomError], client: Client, server: Behaviour
) -> None:
    refusal = RefusalError.bare(0, details.encode())
    refusal.grpc_status = status
    error = refused(client, server, refusal)
    assert (type(error), error.message, error.grpc_status) == (kind, details, status)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_refused_connection_says_what_was_attempted(scheme: str, free_port: int) -> None:
    with Client(f"{scheme}://127.0.0.1:{free_port}", retries=0) as client, pytest.raises(APIConnectionError) as caught:
        client.server()
    assert f"127.0.0.1:{free_port}" in str(caught.value)
    assert not isinstance(caught.value, APITimeoutError)
    assert caught.value.__cause__ is not None


def test_a_traceback_shows_reason_hint_and_request_id() -> None:
    error = HistoryTooShort(
        "got 72 time steps, expected at least 96",
        field="series[0].values",
        hint="send the last 96 rows",
        request="POST http://127.0.0.1:3000/v1/forecast",
        request_id="abc",
        http_status=422,
    )
    assert str(error) == (
        "history_too_short: got 72 time steps, expected at least 96 [field: series[0].values]\n"
        "  hint: send the last 96 rows\n"
        "  request: POST http://127.0.0.1:3000/v1/forecast, HTTP 422, request id abc"
    )


def test_errors_survive_a_process_pool() -> None:
    error = HistoryTooShort("short", field="x", hint="more", request_id="abc", http_status=422)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes)
    assert type(copy) is HistoryTooShort
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_the_tree_at_the_modules_top_is_the_tree() -> None:
    drawn = re.findall(r"\b[A-Z]\w+", " ".join(re.findall(r"^[│├└─ ]*((?:[A-Z]\w+ ? ?)+)", _errors.__doc__, re.M)))
    real = {
        name
        for name, kind in vars(pressroom_client).items()
        if inspect.isclass(kind) and issubclass(kind, PressroomError)
    }
    assert set(drawn) - {"Everything", "A"} == real


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("127.0.0.1:3000", "expected http, https, grpc or grpcs"),
        ("ftp://host", "expected http, https, grpc or grpcs"),
        ("http://", "expected http, https, grpc or grpcs"),
        ("http://host:port", "port"),
        ("grpc://host/path", "no path"),
    ],
)
def test_a_bad_address_is_refused_in_words(url: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Client(url)


def test_options_of_the_other_transport_are_refused() -> None:
    with pytest.raises(UsageError, match="got GrpcTransport for 'http://host', expected HttpTransport"):
        Client("http://host", transport=pressroom_client.GrpcTransport())


def test_two_versions_in_one_call_are_refused(client: Client) -> None:
    with pytest.raises(UsageError, match="names a version, and version='2' another"):
        client.model("counter:1", version=2)
    assert client.model("counter:1", version=1).version == "1"


def test_an_empty_model_name_is_refused(client: Client) -> None:
    with pytest.raises(UsageError, match="model name"):
        client.metadata("")
