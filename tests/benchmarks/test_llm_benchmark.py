"""The language-model benchmark: its workers, its figures and verdicts, what a token reads; all with toy generators."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.llm_campaign import MIXED, TASKS, Campaign, Plan, measurements, takes
from benchmarks.llm_contenders import Contender, contenders
from benchmarks.llm_figures import complete, figures, roofline
from benchmarks.llm_memory import weight_bytes
from benchmarks.llm_process import PeerError, PeerProcess
from benchmarks.llm_tables import document, rows, sections
from benchmarks.llm_verdicts import verdicts

COUNTING = """
import asyncio
from benchmarks.llm_peers.worker import Peer, run

class Counting(Peer):
    async def start(self):
        print("a library that prints")

    def versions(self):
        return "counting 1"

    async def stream(self, prompt, count):
        for step in range(count):
            await asyncio.sleep({pause})
            yield [prompt[-1] + 1 + step]
            if prompt[0] == 13:
                raise ValueError("thirteen")

run(Counting())
"""


@pytest.fixture
def counting():
    process = PeerProcess("counting", [sys.executable, "-c", COUNTING.format(pause=0.001)], {})
    assert process.ready() == "counting 1"
    yield process
    process.stop()


class Numbers:
    """Prompts of one number, repeated."""

    def __init__(self) -> None:
        self.next = 20

    def take(self, length: int) -> list[int]:
        self.next += 1
        return [self.next] * length


def test_a_worker_answers_counts_cpu_and_tells_first_tokens(counting):
    answer = counting.ask({"do": "generate", "prompts": [[1, 5], [7]], "count": 3})
    assert answer["tokens"] == [[6, 7, 8], [8, 9, 10]]
    assert 0 < answer["cpu"] < 5
    assert answer["seconds"] >= 0.003
    idle = counting.ask({"do": "first", "probes": [[1], [2]], "load": [], "count": 0})
    loaded = counting.ask({"do": "first", "probes": [[1], [2]], "load": [[3], [4]], "count": 10_000})
    assert (len(idle["first"]), len(loaded["first"])) == (2, 2)


def test_what_fails_in_a_worker_is_named_and_the_worker_goes_on(counting):
    with pytest.raises(PeerError, match="counting: ValueError: thirteen"):
        counting.ask({"do": "generate", "prompts": [[13]], "count": 2})
    with pytest.raises(PeerError, match="the load ended before the last probe"):
        counting.ask({"do": "first", "probes": [[1]] * 20, "load": [[3]], "count": 3})
    assert counting.ask({"do": "generate", "prompts": [[1]], "count": 1})["tokens"] == [[2]]


def test_a_worker_that_does_not_start_says_its_last_line():
    process = PeerProcess("broken", [sys.executable, "-c", "raise SystemExit('no such model')"], {})
    with pytest.raises(PeerError, match="broken: ended with 1: no such model"):
        process.ready()
    process.stop()


def test_a_campaign_measures_everybody_and_leaves_out_who_fails(counting):
    chosen = {
        "pressroom-int8": Contender("pressroom-int8", "ours", list),
        "transformers-fp32": Contender("transformers-fp32", "theirs", list, together="", streams=False),
        "vllm-bf16": Contender("vllm-bf16", "gone", list),
    }
    gone = PeerProcess("gone", [sys.executable, "-c", 'print(\'{"versions": "1"}\')'], {})
    gone.ready()
    campaign = Campaign(Plan(rounds=1, tokens=4, probes=2))
    running = {name: (one, gone if name == "vllm-bf16" else counting) for name, one in chosen.items()}
    steps: list[str] = []
    campaign.run(running, Numbers(), steps.append)
    gone.stop()
    assert campaign.missing == {"vllm-bf16": "gone: ended with 0: no word why"}
    found = figures(campaign)
    assert set(found) == {"pressroom-int8", "transformers-fp32"}
    assert set(found["transformers-fp32"]) == {"alone", "decode", "idle", "agreement", "begun", "exact"}
    assert found["pressroom-int8"]["exact"] == 1
    assert complete(campaign)
    assert measurements(campaign.plan, chosen.values()) == 2 * (6 + 3 + 6)
    claims = {claim.claim: claim.holds for claim in verdicts(found, {}, True)}
    assert claims["every answer has all its tokens"]
    assert any(claim.startswith("one at a time: int8 at least 2 x transformers-fp32") for claim in claims)
    page = "\n".join(sections(campaign, found, {}, {}, []))
    assert "## Not measured\n\n- vLLM bf16: gone: ended with 0" in page
    assert document(campaign, found, {}, [])["not_measured"] == campaign.missing


def results(alone: float, eight: float, tokens: list[int]) -> dict[str, list[dict[str, object]]]:
    """One round: CPU seconds of each task; 4 tokens an answer, of which the prompt takes a tenth of a second."""
    return {
        "prompt": [{"tokens": [[1]], "cpu": 0.1, "seconds": 1.0}],
        "alone": [{"tokens": [tokens], "cpu": alone, "seconds": 1.0}],
        "eight": [{"tokens": [tokens] * 8, "cpu": eight, "seconds": 1.0}],
        "mixed": [{"tokens": [tokens] * 8, "cpu": eight, "seconds": 1.0}],
        "idle": [{"first": [0.010, 0.020, 0.030]}],
        "loaded": [{"first": [0.040, 0.060, 0.050]}],
    }


def test_figures_are_rates_medians_and_agreement():
    campaign = Campaign(Plan(1, 4), bandwidth=[100.0])
    campaign.results["transformers-fp32"] = results(0.4, 1.0, [1, 2, 3, 4])
    campaign.results["transformers-batching-fp32"] = results(0.4, 1.0, [1, 2, 3, 4])
    campaign.results["pressroom-int8"] = results(0.2, 0.25, [1, 2, 9, 9])
    mine = figures(campaign)["pressroom-int8"]
    assert mine == {
        "alone": pytest.approx(20),
        "eight": pytest.approx(128),
        "mixed": pytest.approx(128),
        "decode": pytest.approx(30),
        "idle": pytest.approx(20),
        "loaded": pytest.approx(50),
        "exact": 0,
        "agreement": 0.5,
        "begun": 1,
    }
    assert roofline(campaign, {"pressroom-int8": 2}) == {"pressroom-int8": (50, pytest.approx(0.6))}


def test_verdicts_compare_with_every_peer_that_was_measured():
    found = {
        "pressroom-int8": {"alone": 50.0, "eight": 90.0, "idle": 20.0, "loaded": 51.0, "begun": 1.0},
        "transformers-fp32": {"alone": 25.0, "begun": 1.0},
        "vllm-bf16": {"alone": 10.0, "eight": 100.0, "begun": 0.4},
    }
    claims = [(claim.claim, claim.holds) for claim in verdicts(found, {"pressroom-int8": (80.0, 0.61)}, True)]
    assert claims == [
        ("one at a time: int8 at least 2 x transformers-fp32", True),
        ("8 at once: int8 at least 1 x vllm-bf16", False),
        ("int8 reaches 0.6 of what memory allows, one at a time", True),
        ("first token while 8 are answered at most 2.5 x idle: pressroom-int8", False),
        ("every answer has all its tokens", True),
        ("everybody begins at least 50% of the answers as transformers fp32 does", False),
    ]


def test_every_contender_has_a_task_and_a_line():
    known = contenders()
    assert all(any(takes(one, task) for task in TASKS) for one in known.values())
    assert not takes(known["genai-int8"], "mixed")
    assert len(MIXED) == 8
    assert rows({"llama.cpp-q4_1": {"eight": 83.4}}) == [["llama.cpp Q4_1", "-", "-", "83", "-", "-", "-", "-"]]


def test_a_token_reads_all_weights_but_single_rows_of_tables(tmp_path: Path):
    weights = [
        numpy_helper.from_array(np.zeros((50, 8), np.float32), "table"),
        numpy_helper.from_array(np.zeros((8, 4), np.float32), "matrix"),
        numpy_helper.from_array(np.zeros((4, 8), np.float16), "head"),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "matrix"], ["y"]),
        helper.make_node("MatMul", ["y", "head"], ["z"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1])
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 8])
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [ids], [out], weights)), file)
    assert weight_bytes(file) == 8 * 4 * 4 + 4 * 8 * 2
