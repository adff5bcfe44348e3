"""What stands between a record and MOTOR's network, and between its features and an answer."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from models.errors import InputError
from models.motor import head
from models.motor.answers import HazardError, Task, hazards_per_day
from models.motor.curves import log2_hazards, median_time, survival
from models.motor.hawk import Hawk
from models.motor.inputs import serving_tensors, to_tensors
from models.motor.layers import banded_attention, local_mask
from models.motor.record import Reading, Record, in_order, read_history
from models.motor.spec import EhrSpec
from models.motor.task_file import TaskFile, TaskFileError, TaskMetric, read_task_file
from models.motor.vocabulary import Event, Ontology, Vocabulary

BORN = datetime(1980, 1, 1)
DAY = timedelta(days=1)
VOCABULARY = Vocabulary(
    {
        "vocab": [
            {"type": "code", "code_string": "A"},
            {"type": "code", "code_string": "B"},
            {"type": "code", "code_string": "MEDS_BIRTH"},
        ],
        "age_stats": {"mean": 0.0, "std": 86400.0},
    },
    Ontology({"C": ["A", "B"]}),
)
READING = Reading(vocabulary=VOCABULARY, birth_codes=("MEDS_BIRTH",), death_codes=("MEDS_DEATH",), reach=0, limit=100)


def read(*events: Event, birth: datetime | None = BORN, reading: Reading = READING) -> Any:
    return read_history(Record(events=events, birth=birth), reading, BORN + 1000 * DAY, strict=False, field="p")


def test_a_bare_birth_stands_for_its_event_and_is_not_counted() -> None:
    event = Event(BORN, "MEDS_BIRTH")
    bare, stated = read(Event(BORN + DAY, "A")), read(event, Event(BORN + DAY, "A"), birth=None)
    assert [p.tokens for p in bare.positions] == [p.tokens for p in stated.positions] == [(2,), (0,)]
    assert (bare.counts.received, bare.counts.used) == (1, 1)
    assert (stated.counts.received, stated.counts.used) == (2, 2)
    assert (bare.age_days, bare.last_event_days) == (1000.0, 999.0)


def test_a_cut_counts_events_and_not_the_birth_that_was_put_there() -> None:
    events = [Event(BORN + i * DAY, "AB"[i % 2]) for i in range(1, 11)]
    history = read(*events, reading=replace(READING, reach=4))
    assert [p.age_days for p in history.positions] == [7, 8, 9, 10]
    assert (history.counts.used, history.counts.truncated) == (4, 6)


def test_a_history_beyond_the_limit_is_refused_where_nothing_may_be_cut() -> None:
    events = [Event(BORN + i * DAY, "AB"[i % 2]) for i in range(1, 101)]
    with pytest.raises(InputError, match="101 positions") as refused:
        read(*events)
    assert refused.value.code == "history_too_long"


@settings(max_examples=80, deadline=None)
@given(
    days=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 20), st.sampled_from("ABCDX")), min_size=1, max_size=120
    ),
    reach=st.sampled_from([1, 3, 7, 20]),
    stated=st.booleans(),
)
def test_what_is_not_looked_at_could_not_have_counted(
    days: list[tuple[int, int, str]], reach: int, stated: bool
) -> None:
    """Only the last days of a record become positions: the same ones as of the whole record, and counts add up."""
    events = [Event(BORN + day * DAY + timedelta(hours=hour), code) for day, hour, code in [*days, (1, 1, "A")]]
    events += [Event(BORN, "MEDS_BIRTH")] if stated else []
    birth = None if stated else BORN
    whole = read(*events, birth=birth, reading=replace(READING, limit=1000))
    recent = read(*events, birth=birth, reading=replace(READING, reach=reach))
    kept = whole.positions[-reach:]
    assert [(p.time, p.tokens) for p in recent.positions] == [(p.time, p.tokens) for p in kept]
    for history in (whole, recent):
        received, *rest = vars(history.counts).values()
        assert received == sum(rest) == len(events)


def test_events_have_one_order_and_no_twins() -> None:
    events = [
        Event(BORN, "B", 2.0), Event(BORN, "B", 1.0), Event(BORN, "B"), Event(BORN, "A", None, "x"), Event(BORN, "A"),
        Event(BORN, "MEDS_BIRTH"), Event(BORN, "B"),
    ]  # fmt: skip
    ordered = in_order(events)
    assert ordered == in_order(events[::-1])
    assert [(e.code, e.numeric_value, e.text_value) for e in ordered] == [
        ("MEDS_BIRTH", None, None), ("A", None, None), ("A", None, "x"), ("B", None, None), ("B", 1.0, None),
        ("B", 2.0, None),
    ]  # fmt: skip


def test_unknown_codes_are_not_remembered() -> None:
    ontology = Ontology({"C": ["A"]})
    for i in range(100):
        assert ontology.ancestors(f"unknown {i}") == {f"unknown {i}"}
    assert ontology.ancestors("C") == {"C", "A"}
    assert set(ontology._known) == {"C"}


def test_entries_of_newer_dictionaries_speak_of_one_property() -> None:
    vocabulary = Vocabulary(
        {
            "vocab": [
                {"type": "code", "code_string": "A"},
                {"type": "numeric", "property": "numeric_value", "val_start": -math.inf, "val_end": 1.0},
                {"type": "numeric", "property": "numeric_value", "val_start": 1.0, "val_end": math.inf},
                {"type": "numeric", "property": "text_value", "val_start": -math.inf, "val_end": math.inf},
                {"type": "text", "property": "unit", "text_string": "mg"},
                {"type": "text", "property": "text_value", "text_string": "never"},
            ],
            "age_stats": {"age": {"mean": 1.0, "std": 1.0}},
        },
        Ontology({}),
    )
    assert vocabulary.bag(Event(BORN, "A", 1.0, "never", "mg"))[0] == (0, 2, 4, 5)
    assert vocabulary.bag(Event(BORN, "A", None, "12.5", "MG"))[0] == (0, 3)
    assert vocabulary.bag(Event(BORN, "A", None, None, "never"))[0] == (0,)


@pytest.mark.parametrize(("length", "window"), [(1, 3), (127, 9), (128, 129), (300, 128), (400, 130)])
def test_banded_attention_is_local_attention(length: int, window: int) -> None:
    generator = torch.Generator().manual_seed(length)
    q, k, v = (torch.randn(2, 3, length, 8, generator=generator) for _ in range(3))
    mask = local_mask(length, window, q.device)
    expected = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(banded_attention(q, k, v, window), expected)


def test_the_doubled_recurrence_is_the_stepwise_one() -> None:
    made, generator = Hawk(8, 2), torch.Generator().manual_seed(5)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.7, generator=generator)
    x = torch.randn(2, 37, 8, generator=generator)
    log_a = -8.0 * torch.sigmoid(made.decay_gate(x)) * functional.softplus(made.decay)
    entering = torch.sigmoid(made.input_gate(x)) * x
    state, expected = torch.zeros(2, 8), []
    for step in range(x.shape[1]):
        scale = torch.sqrt(1 - torch.exp(2 * log_a[:, step])) if step else 1.0
        state = torch.exp(log_a[:, step]) * state + scale * entering[:, step]
        expected.append(state)
    torch.testing.assert_close(made.recur(x), torch.stack(expected, dim=1))


def test_padding_stands_behind_the_answering_position() -> None:
    history = read(*(Event(BORN + i * DAY, "C") for i in range(1, 6)))
    plain, padded = to_tensors(history.positions, aged=True), serving_tensors(history.positions, aged=True)
    assert padded["tokens"].shape == (1, 8, 4)
    assert plain["last"] == padded["last"] == [5]
    for name in ("ages", "times"):
        np.testing.assert_array_equal(padded[name][:, :6], plain[name])
    np.testing.assert_array_equal(padded["weights"][:, 6:], 0)
    np.testing.assert_array_equal(padded["weights"][:, :6, 2:], 0)
    assert (np.diff(padded["ages"][0]) >= 0).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_curves_are_the_torch_head_s(seed: int) -> None:
    """Two implementations: numpy for serving, torch for training and golden cases."""
    random = np.random.default_rng(seed)
    starts = np.array([0.0, 30.0, 200.0])
    features, weight = random.normal(size=(3, 4)), random.normal(size=(5, 4))
    bias = np.where(random.random(5) < 0.3, -np.inf, random.normal(-9, 2, size=5))
    logits = log2_hazards(features, weight, bias)
    horizons = np.array([10.0, 100.0, 1000.0])
    there = torch.from_numpy(logits.T[None])
    expected = head.survival(there, torch.from_numpy(starts), torch.from_numpy(horizons))[0].T
    np.testing.assert_allclose(survival(np.exp2(logits), starts, horizons), expected.numpy(), rtol=1e-12)
    medians = head.median_time(there, torch.from_numpy(starts))[0].tolist()
    for rates, wanted in zip(np.exp2(logits), medians, strict=True):
        got = median_time(rates, starts)
        assert got is None if math.isinf(wanted) else got == pytest.approx(wanted)


SPEC = EhrSpec(
    backbone="sha256:" + "0" * 64, dictionary="sha256:" + "1" * 64, layout="v0", hierarchical=True, aged=False,
    time_bins=(0.0, 1440.0), unit_seconds=60.0, rank=2, hidden=4, pretraining_tasks=1, reach=9, limit=9,
    birth_codes=("MEDS_BIRTH",), death_codes=(),
)  # fmt: skip


def test_hazards_a_minute_become_hazards_a_day() -> None:
    task = Task.of_head("A", np.array([1.0, 0.0]), np.array([-2.0, -np.inf]))
    rates = hazards_per_day(np.array([[1.0, 5.0], [1.0, 5.0]]), [task], SPEC)
    np.testing.assert_allclose(rates, [[0.5 * 1440, 0.0]])
    assert SPEC.edges_days == [0.0, 1.0, None]


@pytest.mark.parametrize("value", [math.nan, 1e9])
def test_rates_that_are_no_numbers_are_no_answer(value: float) -> None:
    task = Task.of_head("A", np.array([1.0, 0.0]), np.zeros(2))
    with pytest.raises(HazardError):
        hazards_per_day(np.array([[value, 0.0], [0.0, 0.0]]), [task], SPEC)


def test_settings_survive_the_manifest() -> None:
    assert EhrSpec.from_settings(json.loads(json.dumps(SPEC.settings()))) == SPEC
    with pytest.raises(KeyError):
        EhrSpec.from_settings({})


FILE = TaskFile(
    task="death", version="1", backbone="sha256:" + "a" * 64, time_bins=(0.0, 10.0), vector=(0.1, -1 / 3, -20.5),
    outcome="death", codes=("MEDS_DEATH",), l2=1e-3, calibration="not known",
    metrics=(TaskMetric(name="c", value=0.66, data="d", split="held_out", low=0.6, high=0.7),),
)  # fmt: skip


def test_a_task_file_is_read_as_it_was_written() -> None:
    assert read_task_file(FILE.dump()) == FILE


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", "Death"), ("task", "x" * 60), ("version", ""), ("backbone", "sha256:12"), ("vector", []),
        ("vector", [math.nan]), ("vector", ["1"]), ("vector", [True]), ("time_bins", [1.0, 2.0]),
        ("time_bins", [0.0, 5.0, 5.0]), ("outcome", None), ("codes", "MEDS_DEATH"), ("l2", None), ("metrics", {}),
        ("metrics", [{"name": "c"}]), ("extra", 1), ("format_version", 2),
    ],
)  # fmt: skip
def test_an_unusable_task_file_is_refused_by_field(field: str, value: Any) -> None:
    document = json.loads(FILE.dump()) | {field: value}
    with pytest.raises(TaskFileError, match="metrics|vector" if field in ("metrics", "vector") else field):
        read_task_file(json.dumps(document).encode())


def test_a_file_that_is_no_json_is_refused() -> None:
    with pytest.raises(TaskFileError, match="not JSON"):
        read_task_file(b"\x80\x04")
