"""`pressroom call forecast`: a csv in, a forecast out, over both transports, with refusals in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from etth1 import CARD, COLUMNS, DATA, ITRANSFORMER
from live_server import LiveServer, free_ports

from pressroom.cli import main

ETTH1 = DATA / "ett" / "ETTh1.csv"

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(server: LiveServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """call(FILE, *options) -> exit status, standard output, standard error; the settings name the test's server."""
    monkeypatch.setenv("PRESSROOM_PORT", str(server.port))
    monkeypatch.setenv("PRESSROOM_GRPC_PORT", str(server.grpc_port))

    def run(file: Path, *options: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["call", "forecast", str(file), *options])
        printed = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), printed.out, printed.err

    return run


def test_the_last_rows_of_a_csv_are_forecast_over_http_and_grpc_alike(call: Call) -> None:
    answers = []
    for options in ((), ("--grpc",)):
        status, out, _ = call(ETTH1, "--model", ITRANSFORMER, "--horizon", "5", "--json", *options)
        assert status == 0
        answers.append(json.loads(out))
    over_http, over_grpc = answers
    assert over_http["timestamps"][0] == "2018-06-26 20:00:00"
    assert list(over_http["values"]) == list(COLUMNS)
    assert {len(column) for column in over_http["values"].values()} == {5}
    assert over_http["values"] == over_grpc["values"]
    assert over_http["digest"] == over_grpc["digest"]


def test_the_table_says_what_answered(call: Call, server: LiveServer) -> None:
    status, out, _ = call(ETTH1, "--model", f"{CARD}:1")
    digest = server.get(f"/v1/models/{CARD}").json()["digest"]
    assert status == 0
    assert f"{CARD}:1  {digest}" in out
    assert "84 more time steps" in out


def test_the_forecast_is_written_as_a_csv_like_the_one_read(call: Call, tmp_path: Path) -> None:
    written = tmp_path / "new" / "forecast.csv"
    status, out, _ = call(ETTH1, "--model", CARD, "--out", str(written))
    frame = pd.read_csv(written)
    assert status == 0
    assert str(written) in out
    assert list(frame.columns) == ["date", *COLUMNS]
    assert frame["date"].iloc[0] == "2018-06-26 20:00:00"
    assert len(frame) == 96


@pytest.mark.parametrize("time", ["date", "timestamp", "when"])
def test_the_time_column_may_have_any_name_if_it_comes_first(time: str, call: Call, tmp_path: Path) -> None:
    pd.read_csv(ETTH1).tail(96).rename(columns={"date": time}).to_csv(tmp_path / "some.csv", index=False)
    status, out, err = call(tmp_path / "some.csv", "--model", ITRANSFORMER, "--horizon", "1", "--json")
    assert status == 0, err
    assert json.loads(out)["timestamps"] == ["2018-06-26 20:00:00"]


def test_columns_can_be_chosen_and_ordered(call: Call, tmp_path: Path) -> None:
    frame = pd.read_csv(ETTH1).tail(96)
    frame[["date", "OT", *COLUMNS[:-1]]].assign(extra=np.arange(96.0)).to_csv(tmp_path / "mixed.csv", index=False)
    status, out, err = call(tmp_path / "mixed.csv", "--model", CARD, "--columns", ",".join(COLUMNS), "--json")
    _, expected, _ = call(ETTH1, "--model", CARD, "--json")
    assert status == 0, err
    assert json.loads(out)["values"] == json.loads(expected)["values"]


def test_a_refusal_is_a_finding_with_code_field_and_hint(call: Call) -> None:
    status, out, err = call(ETTH1, "--model", CARD, "--columns", "OT", "--json")
    assert status == 1
    assert "columns_missing" in err
    assert "hint: send exactly these columns, in this order" in err
    assert json.loads(out)["error"]["hint"].startswith("send exactly")


def test_no_server_is_a_sentence_with_a_remedy(call: Call) -> None:
    (port,) = free_ports(1)
    status, _, err = call(ETTH1, "--model", CARD, "--url", f"http://127.0.0.1:{port}")
    assert status == 1
    assert "pressroom serve gateway" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), f"which model? the server has {CARD}, {ITRANSFORMER}"),
        (("--model", CARD, "--columns", "HUFL,NOPE"), "no column 'NOPE'"),
        (("--model", CARD, "--grpc", "--url", "http://127.0.0.1:1"), "write grpc://host:port"),
        (("--model", CARD, "--url", "ftp://example"), "ftp://example"),
        (("--model", CARD, "--horizon", "0"), "--horizon"),
    ],
)
def test_misuse_is_told_with_status_2(options: tuple[str, ...], said: str, call: Call) -> None:
    status, _, err = call(ETTH1, *options)
    assert status == 2
    assert said in err


def test_a_file_that_is_no_csv_is_misuse(call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    status, _, err = call(tmp_path / "empty.csv", "--model", CARD)
    assert status == 2
    assert "empty.csv" in err
