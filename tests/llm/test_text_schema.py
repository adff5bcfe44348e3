"""Requests made up from the document of the two text routes, against a model that answers them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from live_server import StartServer
from text_server import FP32

HOOKS = Path(__file__).parents[1] / "fuzz"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


def test_every_answer_to_a_made_up_text_request_is_a_documented_one(start_text: StartServer, tmp_path: Path) -> None:
    text = start_text("--models", FP32)  # so that requests which name no model are answered
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{text.url}/openapi.json",
        "--checks",
        ",".join(CHECKS),
    ]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "20", "--warnings", "off"]
    command += ["--generation-database", "none", "--include-path-regex", "/v1/.*completions"]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HOOKS)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "Tested: 2" in done.stdout
    assert text.get("/readyz").status_code == 200
