"""The closed list of error codes: documented, known to the client, and every pipeline's refusals are in it."""

from __future__ import annotations

import ast
from pathlib import Path

import grpc
import pytest
from pressroom_client._error_codes import BY_CODE

from models.errors import InputError
from services.core.errors import CODES, ApiError

ROOT = Path(__file__).resolve().parents[2]
KEYS = ["code", "message", "field", "hint", "request_id"]

every_code = pytest.mark.parametrize("code", CODES)


@every_code
def test_a_code_has_a_status_in_both_protocols_and_a_meaning(code: str) -> None:
    entry = CODES[code]
    assert 400 <= entry.http < 600
    assert isinstance(getattr(grpc.StatusCode, entry.grpc), grpc.StatusCode)
    assert len(entry.meaning) > 10


@every_code
def test_a_code_is_documented_with_its_statuses(code: str) -> None:
    lines = (ROOT / "docs" / "errors.md").read_text().splitlines()
    (row,) = (line for line in lines if line.startswith(f"| `{code}` |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:4] == [str(CODES[code].http), f"`{CODES[code].grpc}`", CODES[code].meaning]


@every_code
def test_the_client_has_a_class_for_a_code(code: str) -> None:
    assert code in BY_CODE


def test_the_client_knows_no_code_the_server_lacks() -> None:
    assert BY_CODE.keys() <= CODES.keys()


def _raised_codes() -> set[str]:
    """First arguments of every InputError and ApiError in the sources, where they are literals."""
    found = set()
    for folder in ("models", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if called in ("InputError", "ApiError") and isinstance(node, ast.Call) and node.args:
                    found |= {
                        n.value
                        for n in ast.walk(node.args[0])
                        if isinstance(n, ast.Constant) and isinstance(n.value, str)
                    }
    return found


def test_every_code_raised_is_in_the_list_and_every_code_listed_is_raised() -> None:
    raised = _raised_codes()
    assert raised - CODES.keys() == set()
    indirectly = {"cancelled", "internal", "route_not_found", "timestamps_unsorted", "timestamps_duplicate"}
    indirectly |= {"timestamps_gap", "frequency_mismatch", "tensor_dtype", "tensor_shape"}
    assert CODES.keys() - raised <= indirectly


def test_the_envelope_has_one_shape() -> None:
    error = ApiError("history_too_short", "72 came, 96 are needed", field="series[0]", hint="send more")
    assert error.envelope("id-1") == {
        "error": {
            "code": "history_too_short",
            "message": "72 came, 96 are needed",
            "field": "series[0]",
            "hint": "send more",
            "request_id": "id-1",
        }
    }
    assert list(ApiError("internal", "sorry").envelope("x")["error"]) == KEYS
    waiting = ApiError("queue_full", "full", retry_after_ms=250).envelope("x")["error"]
    assert list(waiting) == [*KEYS, "retry_after_ms"]


def test_a_pipelines_refusal_keeps_its_words() -> None:
    error = ApiError.of(InputError("columns_missing", "missing: OT", field="series[0].values", hint="send it"))
    assert (error.code, error.message, error.field, error.hint) == (
        "columns_missing",
        "missing: OT",
        "series[0].values",
        "send it",
    )


@pytest.mark.parametrize("fault", [RuntimeError("/secret/path"), KeyError("other caller"), MemoryError(), ValueError()])
def test_an_unexpected_fault_becomes_internal_without_its_text(fault: Exception) -> None:
    error = ApiError.of(fault)
    text = str(error.envelope("id"))
    assert error.code == "internal"
    assert "secret" not in text
    assert "other caller" not in text


def test_a_stated_refusal_passes_unchanged() -> None:
    error = ApiError("queue_full", "full", retry_after_ms=5)
    assert ApiError.of(error) is error
