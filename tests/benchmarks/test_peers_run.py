"""A run against servers that are honest, that answer wrongly, that refuse, and that never start."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cpu import descendants
from benchmarks.environments import PeerMissing
from benchmarks.load import LoadGenerator
from benchmarks.peers import campaign as runs
from benchmarks.peers import subjects
from benchmarks.peers.campaign import Campaign, Cell, Loop, Plan
from benchmarks.peers.contenders import Contender
from benchmarks.peers.processes import is_alive, served
from benchmarks.peers.subjects import Subject
from benchmarks.peers.wires import WIRES, Requests

PROGRAM = Path(__file__).with_name("lying_server.py")


def _contender(manner: str) -> Contender:
    return Contender(
        manner, manner, ("bytes",), (), lambda python, port, grpc_port: [sys.executable, str(PROGRAM), manner]
    )


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def subject(tmp_path_factory, patched):
    """x -> x + 1 on rows of four numbers."""
    folder = tmp_path_factory.mktemp("add")
    patched.setattr(subjects, "FOLDER", folder)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], "add", ends[:1], ends[1:], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), folder / "add.onnx")
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    made = Subject("add", "x + 1", folder / "add.onnx", {"x": x}, {"y": x + 1})
    made.write()
    return made


@pytest.fixture(scope="module")
def measured(subject, patched):
    """A run of all three manners, one closed and one open loop, twice; its ticks, and its shots."""
    manners = ("honest", "wrong", "refusing")
    patched.setattr(runs, "CONTENDERS", {manner: _contender(manner) for manner in manners})
    plan = Plan(subjects=["add"], contenders=manners, clients=(3,), shares=(0.1,), rounds=2, seconds=0.2, warm=0.1)
    run = Campaign(plan, {manner: Path(sys.executable) for manner in manners})
    ticks, shots = [], []
    with LoadGenerator(Requests({"add": subject.inputs})) as generator:
        take = generator.take
        patched.setattr(generator, "take", lambda shot: (shots.append(shot), take(shot))[1])
        run.run(subject, generator, lambda what, done: ticks.append(done))
    return run, ticks, shots


def test_wrong_and_refused_answers_are_counted_and_named(measured):
    run, ticks, shots = measured
    assert run.missing == {}
    assert sum(ticks) == len(shots) == 12  # 3 servers, 2 loads, 2 rounds

    def results(manner):
        return [one for cell, found in run.results.items() if cell.contender == manner for one in found]

    for one in results("honest"):
        assert (one.failed, one.wrong) == (0, 0)
        assert one.checked > 0
        assert one.cpu_ms > 0
        assert 0 < one.p50_ms <= one.p99_ms
    assert all(one.failed == 0 for one in results("wrong"))
    closed = run.results[Cell("add", "wrong", "bytes", Loop(clients=3))]
    for one in closed:
        assert 0 < one.wrong < one.checked
    assert all(one.failed > 0 and one.wrong == 0 for one in results("refusing"))
    assert {failure.partition(":")[0].split()[1] for failure in run.failures} == {"wrong", "refusing"}
    assert any("429" in failure for failure in run.failures)
    assert run.memory.keys() == {("add", "honest"), ("add", "wrong"), ("add", "refusing")}
    assert all(5 < mib < 200 for mib in run.memory.values())


def test_an_open_loop_asks_at_its_share_of_the_closed_loops_rate(measured):
    run, _, shots = measured
    closed = run.results[Cell("add", "honest", "bytes", Loop(clients=3))]
    first, *_, last = (shot for shot in shots if not shot.clients)  # the honest server's: rounds go there and back
    assert first.rate == pytest.approx(0.1 * closed[0].requests_per_s)
    assert last.rate == pytest.approx(0.1 * median(one.requests_per_s for one in closed))


def test_a_paused_server_does_nothing_and_goes_on_afterwards(subject):
    row = {"x": subject.inputs["x"][0]}
    with (
        served(_contender("honest"), Path(sys.executable), subject) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=0.2) as connection,
    ):
        running.pause()
        connection.sendall(WIRES["bytes"].build("add", row))
        with pytest.raises(TimeoutError):
            connection.recv(1)
        running.resume()
        connection.settimeout(10)
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_a_server_that_ends_at_once_is_missing_with_its_last_words(subject):
    broken = Contender(
        "broken", "broken", ("bytes",), (), lambda *_: [sys.executable, "-c", "raise SystemExit('no luck')"]
    )
    with (
        pytest.raises(PeerMissing, match="broken did not answer: no luck"),
        served(broken, Path(sys.executable), subject),
    ):
        pytest.fail("it never ran")


def test_nothing_of_a_server_is_left(subject):
    nested = (
        f"import subprocess, sys; subprocess.run([sys.executable, {str(PROGRAM)!r}, 'honest'], start_new_session=True)"
    )
    supervised = Contender("nested", "nested", ("bytes",), (), lambda *_: [sys.executable, "-c", nested])
    with served(supervised, Path(sys.executable), subject) as running:
        below = descendants(running.pid)
        assert len(below) == 1
    assert not any(map(is_alive, (running.pid, *below)))
