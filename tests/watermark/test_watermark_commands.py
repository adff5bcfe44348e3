"""`pressroom text watermark` and `text decode` against a real server: files, standard input, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

from live_server import LiveServer
from marked_server import SCHEME, generate
from typer.testing import CliRunner

from pressroom.cli import app

RUN = CliRunner()


def test_a_marked_text_is_read_from_a_file_and_from_standard_input(marks: LiveServer, tmp_path: Path) -> None:
    file = tmp_path / "marked.txt"
    file.write_text(generate(marks, message=90)["text"])
    told = RUN.invoke(app, ["text", "decode", str(file), "--url", marks.url, "--model", SCHEME, "--json"])
    assert told.exit_code == 0, told.output
    [result] = json.loads(told.stdout)
    assert [one["message"] for one in result["readings"]] == [90]
    shown = RUN.invoke(app, ["text", "decode", "-", "--url", marks.url], input=file.read_text())
    assert shown.exit_code == 0, shown.output
    assert "marked" in shown.stdout
    assert "evidence, not proof" in shown.stdout


def test_a_prompt_from_standard_input_is_continued(marks: LiveServer) -> None:
    asked = ["text", "watermark", "-", "--message", "5", "--max-tokens", "80", "--seed", "1", "--ignore-eos", "--json"]
    done = RUN.invoke(app, [*asked, "--url", marks.url], input="Hello\n")
    assert done.exit_code == 0, done.output
    marked = json.loads(done.stdout)
    assert (marked["tokens"], marked["segments"], marked["key_id"]) == (80, 1, "new")


def test_refusals_leave_by_the_exit_status(marks: LiveServer, tmp_path: Path) -> None:
    short = RUN.invoke(
        app, ["text", "watermark", "-", "--message", "5", "--max-tokens", "9", "--url", marks.url], input="x"
    )
    assert short.exit_code == 1
    assert "73 tokens" in short.output
    assert RUN.invoke(app, ["text", "decode", str(tmp_path / "none.txt"), "--url", marks.url]).exit_code == 2
    (tmp_path / "raw").write_bytes(b"\xff\xfe")
    assert RUN.invoke(app, ["text", "decode", str(tmp_path / "raw"), "--url", marks.url]).exit_code == 2
