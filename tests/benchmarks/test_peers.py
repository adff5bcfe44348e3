"""What is said of us beside peers: requests everybody can read, answers compared, figures, claims, tables, page."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pytest
import typer

from benchmarks.command import chosen
from benchmarks.cpu import CpuReading
from benchmarks.load import Taken
from benchmarks.peers.campaign import Campaign, Cell, Loop, Plan, Result, to_result
from benchmarks.peers.charts import draw
from benchmarks.peers.contenders import CONTENDERS, SERVERS
from benchmarks.peers.subjects import Subject
from benchmarks.peers.tables import document, rows, sections, summary
from benchmarks.peers.verdicts import verdicts
from benchmarks.peers.wires import WIRES, is_right
from pressroom.bench_http import Outcome
from services.core.oip.codec import decode_request
from services.core.oip.messages import ModelInferRequest, ModelInferResponse

ROW = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
    "b": np.array([-1.5, 2.5], dtype=np.float32),
}
FLAT = np.concatenate([ROW["a"].ravel(), ROW["b"]])


def _body(wire):
    return WIRES[wire].build("m", ROW).partition(b"\r\n\r\n")[2]


def test_every_request_holds_the_row():
    np.testing.assert_array_equal(np.frombuffer(_body("bytes"), np.float32), FLAT)
    np.testing.assert_array_equal(np.array(orjson.loads(_body("row-json"))["row"], np.float32), FLAT)
    np.testing.assert_array_equal(np.array(orjson.loads(_body("rows-json"))["rows"], np.float32), FLAT[np.newaxis])
    message = ModelInferRequest.FromString(WIRES["oip-grpc"].build("m", ROW))
    assert message.model_name == "m"
    assert b"".join(message.raw_input_contents) == FLAT.tobytes()


@pytest.mark.parametrize("wire", ["oip-json", "oip-binary"])
def test_requests_of_the_open_protocol_are_read_by_our_server(wire):
    head, _, body = WIRES[wire].build("m", ROW).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/models/m/infer HTTP/1.1\r\n")
    length = head.partition(b"Inference-Header-Content-Length: ")[2].partition(b"\r\n")[0] or None
    tensors = decode_request(body, length).tensors
    for name, tensor in ROW.items():
        np.testing.assert_array_equal(tensors[name], tensor[np.newaxis])


def _answers():
    """The answer 0.25, -2 in every way a server may write it."""
    values = np.array([0.25, -2], np.float32)
    output = {"name": "y", "datatype": "FP32", "shape": [1, 2]}
    binary = orjson.dumps({"outputs": [{**output, "parameters": {"binary_data_size": 8}}]})
    message = ModelInferResponse()
    message.outputs.add(**output)
    raw, contents = ModelInferResponse.FromString(message.SerializeToString()), message
    raw.raw_output_contents.append(values.tobytes())
    contents.outputs[0].contents.fp32_contents.extend(values.tolist())
    return [
        ("bytes", Outcome("", b"", values.tobytes())),
        ("row-json", Outcome("", b"", b'{"row": [0.25, -2]}')),
        ("rows-json", Outcome("", b"", b"[[0.25, -2.0]]")),
        ("oip-json", Outcome("", b"", orjson.dumps({"outputs": [{**output, "data": [0.25, -2]}]}))),
        ("oip-binary", Outcome("", b"inference-header-content-length: %d" % len(binary), binary + values.tobytes())),
        ("oip-grpc", Outcome("", b"", raw.SerializeToString())),
        ("oip-grpc", Outcome("", b"", contents.SerializeToString())),
    ]


@pytest.mark.parametrize(("wire", "answer"), _answers())
def test_an_answer_is_right_only_where_its_numbers_are_the_graphs(wire, answer, tmp_path):
    y = np.array([[9, 9], [0.25, -2]], np.float32)
    subject = Subject("m", "m", tmp_path / "m.onnx", {}, {"y": y})
    assert is_right(WIRES[wire], answer, subject, 1)
    assert not is_right(WIRES[wire], answer, subject, 0)
    assert not is_right(WIRES[wire], Outcome("", answer.head, answer.body[:-3]), subject, 1)
    near = Subject("m", "m", tmp_path / "m.onnx", {}, {"y": y * np.float32(1.0005)})
    far = Subject("m", "m", tmp_path / "m.onnx", {}, {"y": y * np.float32(1.002)})
    assert is_right(WIRES[wire], answer, near, 1)
    assert not is_right(WIRES[wire], answer, far, 1)


def test_cpu_a_request_counts_the_whole_server_and_others_are_whoever_else_ran():
    taken = Taken(
        seconds=2.0, answers=400, failed=0, first_failure="", p50_ms=1.0, p99_ms=2.0,
        server=CpuReading(workers=1.0, supervisor=0.2, machine=2.5), generator_cpu=0.5,
        kept=[(0, Outcome("", b"", b""))],
    )  # fmt: skip
    found = to_result(taken, wrong=1)
    assert found.requests_per_s == 200
    assert found.cpu_ms == pytest.approx(3.0)
    assert (found.generator, found.others) == (0.25, pytest.approx(0.4))
    assert (found.checked, found.wrong) == (1, 1)


BUSY = Loop(clients=64)


def _cell(contender, wire, load=BUSY):
    return Cell("mlp", contender, wire, load)


def _numbers(rate, cpu, p99, failed=0, wrong=0):
    return {"requests_per_s": rate, "cpu_ms": cpu, "p50_ms": p99 / 2, "p99_ms": p99, "generator": 0.5, "others": 0.0,
            "answers": 100, "failed": failed, "checked": 10, "wrong": wrong}  # fmt: skip


def _medians(**changed):
    cells = {
        ("pressroom", "oip-binary"): _numbers(9000, 0.10, 8),
        ("pressroom", "oip-grpc"): _numbers(7000, 0.13, 7),
        ("mosec", "bytes"): _numbers(8500, 0.09, 6),
        ("triton", "oip-binary"): _numbers(8000, 0.12, 9),
        ("triton", "oip-grpc"): _numbers(7500, 0.12, 9),
    }
    return {_cell(*key): numbers for key, numbers in cells.items()} | {
        _cell("pressroom", "oip-binary", Loop(clients=1)): _numbers(1, 99, 99)  # decides nothing
    }


def test_claims_take_the_best_of_ours_and_the_best_of_theirs():
    found = {verdict.claim: verdict for verdict in verdicts(_medians())}
    mosec = found["mlp: more requests/s and less CPU a request than mosec"]
    assert (mosec.found, mosec.holds) == ("1.06 x requests/s, 1.11 x CPU (0.100 against 0.090 ms)", False)
    triton = found["mlp: more requests/s and less CPU a request than Triton, python backend"]
    assert (triton.found, triton.holds) == ("1.12 x requests/s, 0.83 x CPU (0.100 against 0.120 ms)", True)
    latency = found["mlp: p99 at most 1.2 x the best peer's"]
    assert (latency.found, latency.holds) == ("1.17 x (7.0 against 6.0 ms of mosec)", True)
    grpc = found["mlp: gRPC takes at most Triton's CPU a request"]
    assert (grpc.found, grpc.holds) == ("0.130 against 0.120 ms", False)
    answers = found["no failed and no wrong answer of any server"]
    assert (answers.found, answers.holds) == ("0 failed, 0 of 60 compared ones wrong", True)
    assert len(found) == 5


@pytest.mark.parametrize("fault", ["failed", "wrong"])
def test_a_bad_answer_of_a_peer_breaks_a_claim(fault):
    medians = _medians()
    medians[_cell("mosec", "bytes")] = _numbers(8500, 0.09, 6, **{fault: 1})
    assert not verdicts(medians)[-1].holds


def test_a_peer_is_not_beaten_by_rate_alone_nor_by_cpu_alone():
    for rate, cpu in ((9001, 0.2), (1, 0.09)):
        medians = _medians()
        medians[_cell("mosec", "bytes")] = _numbers(rate, cpu, 6)
        assert not verdicts(medians)[0].holds


def _result(rate, wrong=0):
    return Result(requests_per_s=rate, p50_ms=1.0, p99_ms=2.0, cpu_ms=100 / rate, generator=0.3, others=0.01,
                  answers=10, failed=0, checked=5, wrong=wrong)  # fmt: skip


def _campaign():
    plan = Plan(
        subjects=["mlp"], contenders=["pressroom", "mosec", "ray"], clients=(1, 64), shares=(0.5,),
        rounds=3, seconds=1.0, warm=0.1,
    )  # fmt: skip
    campaign = Campaign(plan, {})
    campaign.floors["mlp"] = {1: 0.2, 32: 0.07}
    campaign.memory = {("mlp", "pressroom"): 180.4, ("mlp", "mosec"): 90.0}
    campaign.missing["ray, mlp"] = "no wheel for this machine"
    for load in plan.loads():
        campaign.results[_cell("pressroom", "oip-binary", load)] = [_result(100), _result(300), _result(200, wrong=1)]
        campaign.results[_cell("mosec", "bytes", load)] = [_result(500)] * 3
    return campaign


def test_tables_show_medians_with_the_cheapest_first_and_ours_in_bold():
    numbers = summary(_campaign())
    ours, theirs = _cell("pressroom", "oip-binary"), _cell("mosec", "bytes")
    assert numbers[ours]["requests_per_s"] == 200
    assert (numbers[ours]["wrong"], numbers[ours]["answers"]) == (1, 30)
    assert rows([ours, theirs], numbers) == [
        ["mosec, bytes", "500", "1.00", "2.00", "0.200", "30%"],
        ["**Pressroom, REST binary**", "200", "1.00", "2.00", "0.500", "30%"],
    ]


def test_the_page_has_every_load_what_is_missing_and_the_pins(tmp_path):
    campaign = _campaign()
    page = "\n\n".join(sections(campaign, verdicts(summary(campaign))))
    for heading in ("mlp, 1 client", "mlp, 64 clients", "mlp, open loop at 50% of its own rate with 64 clients"):
        assert f"## {heading}\n\n| server |" in page
    assert "- not measured: ray, mlp: no wheel for this machine" in page
    assert "| mosec | 0.200, 500, 2.0 |" in page
    assert "| **Pressroom** | 0.500, 200, 2.0 |" in page
    assert "| Ray Serve | - |" in page
    assert "| mosec | 90 |" in page
    assert "| Pressroom | 180 |" in page
    assert "mosec==" in page
    for chart in draw(tmp_path, summary(campaign)):
        assert f"]({chart.name})" in page
        assert 1000 < chart.stat().st_size < 100_000


def test_the_document_is_json_with_every_round():
    campaign = _campaign()
    told = json.loads(json.dumps(document(campaign, verdicts(summary(campaign)))))
    assert len(told["cells"]) == 6
    assert [one["requests_per_s"] for one in told["cells"][0]["rounds"]] == [100, 300, 200]
    assert told["servers"]["mosec"][0].startswith("mosec==")
    assert told["missing"] == campaign.missing


def test_every_contender_pins_what_it_installs_and_has_its_program():
    for contender in CONTENDERS.values():
        assert all("==" in package for package in contender.packages)
        assert set(contender.wires) <= set(WIRES)
        assert not WIRES[contender.wires[0]].grpc
    assert {path.name for path in SERVERS.glob("*_peer.py")} == {
        f"{name}_peer.py" for name, one in CONTENDERS.items() if one.packages
    }


def test_a_run_measures_everything_once_a_round():
    plan = Plan(subjects=["mlp", "card"], contenders=["pressroom", "mosec"], rounds=3, seconds=1, warm=0.1)
    assert plan.shots() == 2 * 3 * 3 * 5  # models, rounds, wires, loads


def test_unknown_names_are_refused_with_those_there_are():
    assert chosen("all", ("a", "b"), "--peers") == ["a", "b"]
    assert chosen("b, a", ("a", "b"), "--peers") == ["a", "b"]
    for text in ("c", "", "a,c"):
        with pytest.raises(typer.BadParameter, match="there are a, b"):
            chosen(text, ("a", "b"), "--peers")
