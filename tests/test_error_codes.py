"""Server and client speak of the same errors."""

from __future__ import annotations

import grpc
from pressroom_client._error_codes import BY_CODE

from models import errors
from services.core.errors import CODES, ApiError


def test_the_client_has_a_class_for_every_code_of_the_server_and_no_other():
    assert set(BY_CODE) == set(CODES)


def test_every_code_has_real_statuses_and_a_meaning():
    for code, entry in CODES.items():
        assert 400 <= entry.http <= 504, code
        assert entry.grpc in grpc.StatusCode.__members__, code
        assert entry.meaning, code


def test_an_unforeseen_failure_tells_the_caller_nothing_of_the_inside():
    error = ApiError.of(ValueError("/secret/path of patient 7"))
    envelope = error.envelope("id-1")["error"]
    assert envelope["code"] == "internal"
    assert "secret" not in str(envelope)


def test_a_pipeline_refusal_keeps_its_code_place_and_hint():
    refusal = errors.InputError(
        "value_not_finite", "value 3 is missing", field="series[0].values.OT[3]", hint="fill it"
    )
    assert ApiError.of(refusal).envelope("id-1") == {
        "error": {
            "code": "value_not_finite",
            "message": "value 3 is missing",
            "field": "series[0].values.OT[3]",
            "hint": "fill it",
            "request_id": "id-1",
        }
    }
