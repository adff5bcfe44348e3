"""`pressroom bench` against real servers, and against scripted ones that fail, lie and waver."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from live_server import PRESSROOM, LiveServer, clean_environment
from scripted_peer import http_peer, json_response, respond

from pressroom.cli import main

MODEL = "card-etth1"
INPUTS = [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
QUICK = ("--seconds", "0.3", "--warm", "0.05", "--stability", "1000", "--max-windows", "3", "--clients", "2")


@pytest.fixture
def bench(capsys):
    """bench(*arguments) -> exit status, parsed JSON of standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main(["bench", *arguments, *QUICK, "--json"])
        printed = capsys.readouterr()
        return int(left.value.code or 0), json.loads(printed.out) if printed.out else None, printed.err

    return run


@contextmanager
def scripted(infer, metadata=INPUTS):
    """URL of a server of the protocol, in a thread, whose answers `infer(body, count)` gives as bytes."""
    ready, loop, count = threading.Event(), asyncio.new_event_loop(), [0]
    where = []

    def script(path, body, writer):
        if path == "/v2/models/m" and metadata is not None:
            writer.write(json_response({"name": "m", "inputs": metadata}))
        elif path.endswith("/infer"):
            count[0] += 1
            writer.write(infer(body, count[0]))
        else:
            writer.write(respond("404 Not Found", b"{}"))

    async def serve():
        async with http_peer(script) as port:
            where.append(port)
            ready.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield f"http://127.0.0.1:{where[0]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def output(values):
    return json_response({"outputs": [{"name": "y", "datatype": "FP32", "shape": [len(values)], "data": values}]})


def test_every_wire_of_a_served_model_is_measured_and_its_answers_compared(server: LiveServer, bench):
    wires = ["native", "oip-json", "oip-binary", "grpc"]
    status, found, error = bench(
        server.url, "--model", MODEL, "--wire", ",".join(wires), "--rate", "40", "--grpc", server.grpc_address
    )
    assert status == 0, error
    assert [(one["wire"], one["clients"], one["rate"]) for one in found] == [
        (wire, *load) for wire in wires for load in ((2, None), (None, 40.0))
    ]
    for one in found:
        assert one["failed"] == {}
        assert one["wrong"] == 0
        assert one["compared"] > 0
        assert one["answers"] > 0
        assert 0 < one["p50_ms"] <= one["p99_ms"]


def test_rows_of_random_tensors_reach_the_model(server: LiveServer, bench):
    def rows():
        return server.metric("pressroom_batch_rows_sum", model=MODEL)

    before = rows()
    status, (one,), error = bench(server.url, "--model", MODEL, "--wire", "oip-binary", "--rows", "5")
    assert status == 0, error
    assert (rows() - before) % 5 == 0
    assert rows() - before >= 5 * one["answers"]


def test_a_request_from_a_file_is_sent(server: LiveServer, bench, tmp_path):
    file = tmp_path / "request.json"
    data = np.random.default_rng(0).standard_normal(96 * 7).tolist()
    file.write_text(
        json.dumps({"inputs": [{"name": "history", "datatype": "FP32", "shape": [1, 96, 7], "data": data}]})
    )
    status, (one,), _ = bench(server.url, "--model", MODEL, "--input", str(file))
    assert (status, one["wire"]) == (0, "oip-json"), one


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--model", "nobody"], 2, "serves no model 'nobody'"),
        (["--model", MODEL, "--wire", "pigeon"], 2, "pigeon"),
        (["--model", MODEL, "--clients", "0"], 2, "--clients"),
        (["--model", MODEL, "--rate", "fast"], 2, "--rate"),
        (["--model", MODEL, "--wire", "oip-json", "--shape", "history=1,5,7"], 1, "422 history_too_short"),
        (["--model", MODEL, "--shape", "history"], 2, "NAME=1,96,7"),
    ],
)
def test_misuse_and_a_refused_first_request_say_what_was_wrong(server: LiveServer, capsys, arguments, status, said):
    with pytest.raises(SystemExit) as left:
        main(["bench", server.url, *arguments])
    assert left.value.code == status
    assert said in capsys.readouterr().err


def test_the_servers_own_example_is_the_native_request(server: LiveServer, bench):
    status, (one,), _ = bench(server.url, "--model", MODEL)
    assert (status, one["wire"]) == (0, "native"), one


def test_a_server_that_is_not_ours_is_measured_by_its_metadata(bench):
    def infer(body, count):
        assert np.array(json.loads(body)["inputs"][0]["data"]).shape == (6,)
        return output([1.0, 2.0])

    with scripted(infer) as url:
        status, (one,), error = bench(url, "--model", "m", "--wire", "oip-json", "--rows", "2")
    assert status == 0, error
    assert (one["failed"], one["wrong"]) == ({}, 0)


def test_failures_are_counted_by_status_and_code_and_make_the_status_1(bench):
    def infer(body, count):
        refusal = {"error": {"code": "queue_full", "message": "full"}}
        return json_response(refusal, "429 Full") if count > 20 and count % 2 else output([1.0])

    with scripted(infer) as url:
        status, (one,), _ = bench(url, "--model", "m", "--wire", "oip-json")
    assert status == 1
    assert list(one["failed"]) == ["429 queue_full"]
    assert one["failed"]["429 queue_full"] > 1


def test_answers_that_change_are_counted_as_wrong(bench):
    with scripted(lambda body, count: output([1.0 if count <= 16 else 1.5])) as url:
        status, (one,), _ = bench(url, "--model", "m", "--wire", "oip-json")
        allowed, (other,), _ = bench(url, "--model", "m", "--wire", "oip-json", "--no-compare")
    assert status == 1
    assert one["wrong"] == one["compared"] > 0
    assert (allowed, other["compared"]) == (0, 0)


def test_windows_that_never_agree_end_and_make_the_status_1(capsys):
    """Every answer takes half a millisecond longer than the one before it."""

    def infer(body, count):
        time.sleep(count / 2000)
        return output([1.0])

    with scripted(infer) as url, pytest.raises(SystemExit) as left:
        main(["bench", url, "--model", "m", "--wire", "oip-json", *QUICK, "--stability", "0.1", "--json"])
    assert left.value.code == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["stable"], len(one["windows"]), one["failed"]) == (False, 3, {})


def test_people_get_a_table(server: LiveServer, pressed_home):
    done = subprocess.run(
        [PRESSROOM, "bench", server.url, "--model", MODEL, *QUICK],
        env=clean_environment(pressed_home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    headings, line = done.stdout.splitlines()[:2]
    assert headings.split()[:3] == ["wire", "load", "requests/s"]
    assert line.split()[:3] == ["native", "2", "clients"]
