"""The bundled record model and its adapters, pressed and served: client, command and example agree with torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from live_server import LiveServer, clean_environment, running_server
from pressroom_client import AsyncClient, Client, TimeToEventResult

from export.ehr_source import read_source
from models.motor import adapter, metrics
from models.motor.checkpoint import translate
from models.motor.network import build
from models.motor.record import in_order
from models.motor.task_file import TaskFile, read_task_file
from models.motor.vocabulary import Event, Ontology, Vocabulary

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from manual import ROOT, Reader

FOLDER, RECORDS = ROOT / "data/checkpoints/motor_synthea", ROOT / "data/ehr/data/held_out.parquet"
MODEL, AT = "motor-synthea", "2015-01-01"
PAGE = ROOT / "docs" / "ehr.md"


@pytest.fixture(scope="module")
def synthea(synthea_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with running_server(synthea_home, tmp_path_factory.mktemp("synthea") / "server.log") as running:
        yield running


def test_what_is_pressed_already_is_left_alone(synthea_home: Path) -> None:
    again = "from pressroom.bundled_ehr import press_records; print([one.unchanged for one in press_records()])"
    done = subprocess.run(
        [sys.executable, "-c", again],
        env=clean_environment(synthea_home), cwd=ROOT, check=True, timeout=300, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == f"{[True] * 11}\n"


@pytest.fixture(scope="module")
def adapters() -> dict[str, TaskFile]:
    found = [read_task_file(path.read_bytes()) for path in sorted(FOLDER.glob("*.adapter.json"))]
    return {file.task: file for file in found}


@pytest.fixture(scope="module")
def subjects() -> list[int]:
    """Alive and known at the date: the first two, and the one with the most events by then."""
    table = pq.read_table(RECORDS, columns=["subject_id", "time"])
    grouped = table.group_by("subject_id").aggregate([("time", "min"), ("time", "max")]).to_pylist()
    moment = datetime.fromisoformat(AT)
    known = sorted((g for g in grouped if g["time_min"] < moment < g["time_max"]), key=lambda g: g["subject_id"])
    past = table.filter(pc.less_equal(table["time"], moment))["subject_id"].value_counts().to_pylist()
    events = {entry["values"]: entry["counts"] for entry in past}
    alive = [entry["subject_id"] for entry in known]
    return sorted({*alive[:2], max(alive, key=lambda subject: events[subject])})


def records_of(subjects: list[int]) -> Any:
    return pq.read_table(RECORDS, filters=[("subject_id", "in", subjects)])


def expected(events: Any, adapters: dict[str, TaskFile], days: list[float]) -> dict[str, Any]:
    """Risks of one patient by the network in torch, over the whole past, and each adapter's vector."""
    source = read_source(FOLDER)
    network = build(source.config)
    network.load_state_dict(translate(source.state, source.config).state)
    vocabulary = Vocabulary(source.dictionary, Ontology(source.parents))
    rows = [{k: v for k, v in row.items() if k != "subject_id"} for row in events.to_pylist()]
    past = in_order([Event(**row) for row in rows if row["time"] <= datetime.fromisoformat(AT)])
    positions = vocabulary.positions(past, past[0].time)
    size = max(len(p.tokens) for p in positions)
    tokens = torch.tensor([[[*p.tokens, *[0] * (size - len(p.tokens))] for p in positions]])
    weights = torch.tensor([[[*p.weights, *[0.0] * (size - len(p.weights))] for p in positions]])
    ages = torch.tensor([[p.age_days for p in positions]])
    times = torch.tensor([[[p.standardised_age] for p in positions]])
    with torch.inference_mode():
        features = network.head.features(network(tokens, weights, ages, times)[0, -1:]).double().numpy()
    starts, horizons = np.array(source.config.time_bins), np.array(days) * 86400
    hazards = {task: adapter.with_one(features) @ np.array(file.vector) for task, file in adapters.items()}
    return {task: 1 - metrics.survival_at(hazard, starts, horizons)[0] for task, hazard in hazards.items()}


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_every_adapter_answers_what_torch_says_of_the_whole_past(
    synthea: LiveServer, adapters: dict[str, TaskFile], subjects: list[int], transport: str
) -> None:
    url = synthea.url if transport == "http" else f"grpc://{synthea.grpc_address}"
    with Client(url) as client:
        result = client.predict_time_to_event(records_of(subjects), AT, model=MODEL, horizons_days=[365, 3650])
    assert [patient.id for patient in result] == [str(one) for one in subjects]
    assert len(adapters) == 10
    for subject, patient in zip(subjects, result, strict=True):
        assert {task.task for task in patient.tasks} == set(adapters)
        wanted = expected(records_of([subject]), adapters, [365, 3650])
        for task in patient.tasks:
            np.testing.assert_allclose(task.risk, wanted[task.task], atol=1e-5, rtol=1e-4)
            assert task.calibration == adapters[task.task].calibration
    truncated = {patient.id: patient.events.truncated for patient in result}
    assert max(truncated.values()) > 100  # well beyond the network's reach


async def test_a_file_and_a_frame_get_the_same_answer(synthea: LiveServer, subjects: list[int], tmp_path: Path) -> None:
    pq.write_table(records_of(subjects), tmp_path / "few.parquet")
    async with AsyncClient(synthea.url) as client:
        answers = [
            await client.predict_time_to_event(events, AT, tasks=["death"])
            for events in (tmp_path / "few.parquet", records_of(subjects), records_of(subjects).to_pandas())
        ]
    first = risks(answers[0])
    assert [risks(answer) for answer in answers[1:]] == [pytest.approx(first, abs=1e-6)] * 2


def risks(result: TimeToEventResult) -> list[float]:
    return [float(value) for patient in result for value in patient["death"].risk]


def command(synthea: LiveServer, *words: str) -> subprocess.CompletedProcess[str]:
    call = "from pressroom.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", call, "ehr", "predict", *words, "--url", synthea.url],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_command_prints_a_table_or_the_answer(synthea: LiveServer, subjects: list[int]) -> None:
    chosen = [word for subject in subjects for word in ("--subject", str(subject))]
    asked = (str(RECORDS), "--at", AT, "--task", "death", "--task", "anemia", "--horizon", "365", *chosen)
    shown = command(synthea, *asked)
    assert shown.returncode == 0, shown.stderr
    assert "risk 365 d" in shown.stdout
    assert shown.stdout.count("anemia") == len(subjects)
    answer = json.loads(command(synthea, *asked, "--json").stdout)
    with Client(synthea.url) as client:
        result = client.predict_time_to_event(records_of(subjects), AT, tasks=["death"], horizons_days=[365])
    printed = [patient["tasks"][0]["risk"][0] for patient in answer["patients"]]
    assert printed == pytest.approx(risks(result), abs=1e-6)
    assert answer["digest"] == result.digest
    assert answer["refused"] == []


def test_one_refused_subject_does_not_cost_the_others_their_answers(synthea: LiveServer, subjects: list[int]) -> None:
    table = pq.read_table(RECORDS, columns=["subject_id", "time", "code"])
    deaths = [row for row in table.to_pylist() if row["code"] == "MEDS_DEATH"]
    dead = next(row["subject_id"] for row in deaths if row["time"] < datetime.fromisoformat(AT))
    words = ["--subject", str(dead), "--subject", str(subjects[0])]
    done = command(synthea, str(RECORDS), "--at", AT, "--task", "death", "--json", *words)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert [patient["id"] for patient in answer["patients"]] == [str(subjects[0])]
    assert [(one["id"], one["code"]) for one in answer["refused"]] == [(str(dead), "prediction_after_death")]


def test_files_that_hold_no_records_are_misuse(synthea: LiveServer, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    done = command(synthea, str(tmp_path / "x.parquet"), "--at", AT)
    assert (done.returncode, done.stdout) == (2, "")
    assert "x.parquet is not a parquet file" in " ".join(done.stderr.split())
    done = command(synthea, str(RECORDS), "--at", AT, "--subject", "999999")
    assert done.returncode == 2
    assert "999999 is not in held_out.parquet" in " ".join(done.stderr.split())


def test_every_block_of_the_page_runs(synthea: LiveServer, tmp_path: Path) -> None:
    reader = Reader(home=synthea.home, scratch=tmp_path, ports=(synthea.port, synthea.grpc_port))
    assert reader.follow_page(PAGE) == 3


def test_the_example_prints_risks_and_draws(synthea: LiveServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/ehr_risk.py"), "--url", synthea.url, "--out", str(tmp_path / "a/b.png")],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ischemic_heart_disease" in done.stdout
    assert (tmp_path / "a/b.png").stat().st_size > 10_000


def test_what_is_shipped_is_small_and_states_its_held_out_scores(adapters: dict[str, TaskFile]) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2_000_000
    scores = {
        task: metric.value for task, file in adapters.items() for metric in file.metrics if metric.split == "held_out"
    }
    assert scores.keys() == adapters.keys()
    assert scores["ischemic_heart_disease"] >= 0.70
    assert scores["death"] >= 0.62
