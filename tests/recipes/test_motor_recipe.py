"""The MOTOR recipe: what it reads, that targets and packing are right, that it learns and goes on where it stopped."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from export.ehr_source import read_source
from models.motor import head
from models.motor.checkpoint import translate
from models.motor.config import parse_femr
from models.motor.network import Motor, build
from models.motor.task_file import read_task_file
from models.motor.vocabulary import Event, Ontology, Vocabulary, training_targets
from recipes.common import generator
from recipes.motor import pretrain
from recipes.motor.__main__ import main, train
from recipes.motor.batches import PADDING, Piece, assemble, packed, training_batches
from recipes.motor.dictionary import build_dictionary
from recipes.motor.features import binned_features
from recipes.motor.labels import Question, labels, questions
from recipes.motor.official import official_state
from recipes.motor.prepare import Prepared, prepare
from recipes.motor.records import Record, RecordError, read_split
from recipes.motor.settings import Dictionary, Settings, SettingsError, read_settings
from recipes.motor.targets import history

ROOT = Path(__file__).parents[2]
START = datetime(1950, 1, 1)


@pytest.fixture(scope="module")
def few_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MEDS folder of a few short records."""
    folder = tmp_path_factory.mktemp("meds")
    (folder / "data").mkdir()
    (folder / "metadata").mkdir()
    (folder / "metadata/codes.parquet").write_bytes((ROOT / "data/ehr/metadata/codes.parquet").read_bytes())
    for split, count in (("train", 24), ("tuning", 12)):
        table = pq.read_table(ROOT / f"data/ehr/data/{split}.parquet")
        sizes = table.column("subject_id").value_counts().to_pylist()
        short = [entry["values"] for entry in sizes if entry["counts"] < 500][:count]
        rows = pa.compute.is_in(table.column("subject_id"), pa.array(short))
        pq.write_table(table.filter(rows), folder / f"data/{split}.parquet")
    return folder


@pytest.fixture(scope="module")
def settings() -> Settings:
    found = read_settings(ROOT / "recipes/motor/synthetic_ehr.toml")
    network = replace(found.network, hidden_size=16, intermediate_size=16, attention_width=64)
    training = replace(found.training, steps=30, rows=2, row_length=512, learning_rate=1e-2, evaluate_every=6)
    training = replace(training, warmup_steps=2)
    tasks = replace(found.tasks, count=24, bins=4, rank=6)
    adapters = replace(found.adapters, tasks={"anemia": "SNOMED/271737000", "death": "MEDS_DEATH"})
    return replace(found, network=network, training=training, tasks=tasks, adapters=adapters)


@pytest.fixture(scope="module")
def prepared(few_records: Path, settings: Settings) -> Prepared:
    return prepare(few_records, settings)


@pytest.fixture(scope="module")
def finished(few_records: Path, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = train(settings, few_records, tmp_path_factory.mktemp("run"))
    assert folder is not None
    return folder


def record(*events: tuple[float, str], subject: int = 1) -> Record:
    """Events in days since birth."""
    found = [Event(START + timedelta(days=days), code) for days, code in ((0.0, "MEDS_BIRTH"), *events)]
    return Record(subject, START, found)


def test_training_lowers_the_loss_and_ends_in_an_official_folder(
    finished: Path, settings: Settings, prepared: Prepared
) -> None:
    curve = torch.load(finished.parent / pretrain.STATE, weights_only=True)["curve"]
    assert curve[-1][0] == settings.training.steps
    config = parse_femr(json.loads((finished / "config.json").read_text()), "v1")
    network = build(config)
    network.load_state_dict(translate(load_file(finished / "model.safetensors"), config).state)
    untrained = pretrain.untrained(config, prepared.tasks, settings.training.seed)
    histories = prepared.train_histories
    batches = [assemble([[Piece(i, 0, len(h.ages))]], histories, 512) for i, h in enumerate(histories)]
    assert pretrain.mean_loss(network, batches) < 0.997 * pretrain.mean_loss(untrained, batches)
    assert msgpack.unpackb((finished / "dictionary.msgpack").read_bytes()) == prepared.dictionary


def test_an_interrupted_run_ends_in_the_same_bytes(
    finished: Path, few_records: Path, settings: Settings, tmp_path: Path
) -> None:
    assert train(settings, few_records, tmp_path, until=8) is None
    again = train(settings, few_records, tmp_path)
    assert again is not None
    files = [path.relative_to(finished) for path in sorted(finished.rglob("*")) if path.is_file()]
    assert len(files) == 6
    assert [path for path in files if (finished / path).read_bytes() != (again / path).read_bytes()] == []


def test_a_folder_with_another_run_is_refused(finished: Path, few_records: Path, settings: Settings) -> None:
    other = replace(settings, training=replace(settings.training, seed=8))
    with pytest.raises(SettingsError, match="other settings"):
        train(other, few_records, finished.parent)


def test_adapters_attach_to_this_backbone_only(finished: Path, settings: Settings) -> None:
    source = read_source(finished)
    for name in settings.adapters.tasks:
        found = read_task_file((finished / f"{name}.adapter.json").read_bytes())
        assert (found.task, found.backbone) == (name, source.backbone)
        assert len(found.vector) == settings.tasks.rank + 1
        assert found.time_bins == source.config.time_bins


def test_published_names_come_back_from_ours(finished: Path) -> None:
    config = parse_femr(json.loads((finished / "config.json").read_text()), "v1")
    published = load_file(finished / "model.safetensors")
    back = official_state(translate(published, config).state)
    assert back.keys() == published.keys()
    assert all(torch.equal(back[name], published[name]) for name in back)


def test_targets_are_those_of_the_published_program(prepared: Prepared) -> None:
    """Walked backwards once, against the plain search forwards."""
    ontology = Ontology(prepared.parents)
    vocabulary = Vocabulary(prepared.dictionary, ontology)
    tasks = prepared.tasks.codes[:8]
    for one in prepared.tuning[:3]:
        made = history(one, vocabulary, tasks, ontology)
        expected = training_targets(one.events, vocabulary.positions(one.events, one.birth), tasks, ontology)
        assert made.places.tolist() == [target.position for target in expected]
        for row, target in enumerate(expected):
            seconds = [target.events.get(task, target.censor_seconds) for task in tasks]
            assert made.until[row].tolist() == [np.float32(value) for value in seconds]
            assert made.event[row].tolist() == [task in target.events for task in tasks]


def test_packed_patients_do_not_see_each_other(prepared: Prepared, settings: Settings) -> None:
    config = pretrain.configuration(settings.network, prepared.tasks, 6, len(prepared.dictionary["vocab"]))
    network = pretrain.untrained(config, prepared.tasks, 3).eval()
    pieces = [Piece(i, 0, 60 + i) for i in range(4)]
    batch = assemble([pieces[:3], pieces[3:]], prepared.train_histories, 512)
    assert (batch.segment[1, 63:] == PADDING).all()
    with torch.inference_mode():
        together = pretrain.represent(network, batch, batch.weights)
        places = (together[0, :60], together[0, 60:121], together[0, 121:183], together[1, :63])
        for piece, rows in zip(pieces, places, strict=True):
            own = prepared.train_histories[piece.history]
            there = slice(0, piece.last)
            alone = network(
                torch.from_numpy(own.tokens[None, there]),
                torch.from_numpy(own.weights[None, there]),
                torch.from_numpy(own.ages[None, there]),
                torch.from_numpy(own.times[None, there, None]),
            )[0]
            torch.testing.assert_close(rows, alone, atol=2e-5, rtol=1e-4)


def test_training_uses_the_paper_loss_where_it_is_tame(prepared: Prepared, settings: Settings) -> None:
    config = pretrain.configuration(settings.network, prepared.tasks, 6, len(prepared.dictionary["vocab"]))
    network = pretrain.untrained(config, prepared.tasks, 3).eval()
    batch = assemble([[Piece(0, 0, 100)]], prepared.train_histories, 512)
    with torch.inference_mode():
        chosen = pretrain.represent(network, batch, batch.weights).flatten(0, 1)[batch.label]
        log2_hazard = network.head(chosen)
        starts = torch.tensor(config.time_bins)
        ends = torch.cat([starts[1:], torch.tensor([math.inf])])
        until = batch.until.clamp(min=pretrain.SHORTEST).unsqueeze(1)
        at_risk = (torch.minimum(until, ends[:, None]) - starts[:, None]).clamp(min=0)
        falls = batch.event.unsqueeze(1) & (until >= starts[:, None]) & (until < ends[:, None])
        expected = head.loss(log2_hazard, torch.log2(at_risk), falls)
        assert float(pretrain.batch_loss(network, batch, batch.weights)) == pytest.approx(float(expected), rel=1e-6)


def test_every_position_is_trained_on_once_an_epoch(prepared: Prepared, settings: Settings) -> None:
    wanted = replace(settings.training, row_length=128)
    total = sum(len(h.ages) for h in prepared.train_histories)
    seen: set[tuple[int, int]] = set()
    for rows in training_batches(prepared.train_histories, wanted):
        for row in rows:
            assert sum(len(piece) for piece in row) <= 128
            own = {(piece.history, place) for piece in row for place in range(piece.first, piece.last)}
            assert not own & seen
            seen |= own
        if len(seen) == total:
            break


def test_packing_fills_rows_in_order_of_arrival() -> None:
    rows = packed([Piece(i, 0, size) for i, size in enumerate((6, 5, 4, 3, 2))], 10)
    assert [[piece.history for piece in row] for row in rows] == [[0, 2], [1, 3, 4]]


def test_the_dictionary_keeps_what_everybody_has_and_divides_numbers_evenly() -> None:
    records = [
        Record(i, START, [Event(START, "MEDS_BIRTH"), Event(START + timedelta(1), "V", float(value), None, "mm Hg")])
        for i, value in enumerate(range(100))
    ]
    found = build_dictionary(records, Ontology({"V": ["PARENT"]}), Dictionary(vocab_size=50, numeric_bins=4))
    codes = [entry["code_string"] for entry in found["vocab"] if entry["type"] == "code"]
    assert sorted(codes) == ["PARENT", "V"]
    assert [entry["text_string"] for entry in found["vocab"] if entry["type"] == "text"] == ["mmhg"]
    starts = sorted(entry["val_start"] for entry in found["vocab"] if entry["type"] == "numeric")
    assert starts == [-math.inf, 24.0, 49.0, 74.0]
    assert found["age_stats"] == {"mean": 86400.0, "std": 0.0}


def test_questions_know_nothing_of_what_follows(settings: Settings) -> None:
    """Cutting a record's future changes which days can be asked about, never what one of them is asked with."""
    days = [(20 * 365.0 + 50 * i, "A") for i in range(12)]
    whole = record(*days, (30 * 365.0, "MEDS_DEATH"))
    asked = questions([whole], settings.adapters, seed=3)
    assert len(asked) == settings.adapters.labels_a_subject
    assert all(question.time < whole.events[-1].time for question in asked)
    assert asked == questions([whole], settings.adapters, seed=3)


def test_a_label_counts_from_the_question_to_the_first_event_of_the_code_or_one_below() -> None:
    ontology = Ontology({"B1": ["B"]})
    records = [record((7000, "A"), (7010, "B1"), (7020, "B"), (7030, "A"))]
    asked = [Question(0, START + timedelta(days=days)) for days in (7000, 7010, 7020)]
    found = labels(records, asked, "B", ontology)
    assert (found.rows.tolist(), found.event.tolist()) == ([0], [True])
    assert found.seconds.tolist() == [10 * 86400.0]
    never = labels(records, asked, "C", ontology)
    assert (never.rows.tolist(), never.event.tolist()) == ([0, 1, 2], [False] * 3)
    assert never.seconds.tolist() == [30 * 86400.0, 20 * 86400.0, 10 * 86400.0]


def test_features_of_a_question_do_not_depend_on_its_future(prepared: Prepared, settings: Settings) -> None:
    config = pretrain.configuration(settings.network, prepared.tasks, 6, len(prepared.dictionary["vocab"]))
    network: Motor = pretrain.untrained(config, prepared.tasks, 3).eval()
    vocabulary = Vocabulary(prepared.dictionary, Ontology(prepared.parents))
    one = prepared.tuning[0]
    question = questions([one], settings.adapters, 3)[0]
    past = replace(one, events=[event for event in one.events if event.time <= question.time])
    whole, cut = (binned_features(network, vocabulary, [r], [question]) for r in (one, past))
    np.testing.assert_allclose(whole, cut, atol=1e-5)


def test_a_subject_without_birth_is_named_and_nothing_of_its_events(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows = {"subject_id": [5], "time": [START], "code": ["SECRET"], "numeric_value": [None], "text_value": [None]}
    table = pa.table({**rows, "unit": [None]}, schema=pq.read_schema(ROOT / "data/ehr/data/tuning.parquet"))
    pq.write_table(table, tmp_path / "data/train.parquet")
    with pytest.raises(RecordError) as refusal:
        read_split(tmp_path, "train")
    assert str(refusal.value) == "subject 5: no MEDS_BIRTH event"


def test_unknown_settings_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "recipes/motor/synthetic_ehr.toml").read_text().replace("numeric_bins", "numeric_bin")
    (tmp_path / "s.toml").write_text(text)
    assert main([str(tmp_path / "s.toml"), "--out", str(tmp_path)]) == 2
    assert "dictionary: missing ['numeric_bins'], unknown ['numeric_bin']" in capsys.readouterr().err


def test_randomness_of_hidden_positions_is_apart_from_that_of_epochs() -> None:
    first = generator(7, 0).random(4)
    assert not np.allclose(first, generator(7, pretrain._HIDING).random(4))
