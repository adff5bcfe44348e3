"""Requests made up from the gateway's own OpenAPI document: valid, nearly valid and invalid ones.

Every answer must be a documented one: no 5xx; a status, content type, headers and a body the document describes; and
what the document forbids must be refused. The examples are few and seeded, so that a run repeats. schemathesis runs as
its own command: its pytest plugin does not know this pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from live_server import LiveServer

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
_OPTIONS = {
    "--checks": ",".join(_CHECKS),
    "--phases": "examples,coverage,fuzzing",
    "--max-examples": "25",
    "--seed": "20",
    "--warnings": "off",
    "--generation-database": "none",
}
SECONDS = 180


def test_every_answer_to_a_made_up_request_is_a_documented_one(server: LiveServer, tmp_path: Path) -> None:
    options = [word for pair in _OPTIONS.items() for word in pair]
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", *options]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS * 2
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    tested, generated = (re.search(text, done.stdout) for text in (r"Tested: (\d+)", r"(\d+) generated"))
    assert tested
    assert int(tested[1]) == _operations(server)
    assert generated
    assert int(generated[1]) >= 1000
    assert server.get("/readyz").status_code == 200


def _operations(server: LiveServer) -> int:
    """Those of the document, but for the route it came from, which schemathesis leaves alone."""
    return sum(map(len, server.get("/openapi.json").json()["paths"].values())) - 1
