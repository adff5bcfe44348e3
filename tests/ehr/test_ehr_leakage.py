"""No future in any answer: order, later events and duplicates change nothing; strict_same_day drops mere dates."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tutorial_records import BIRTH, CASE, ROUTE, request

from export.artifact import ArtifactError
from models.motor.inputs import Tensors
from services.core.call import Call
from services.ehr import EhrModel

Json = dict[str, Any]
BORN = datetime(1950, 3, 1)
AT = datetime(1999, 7, 15, 13, 30)
CODES = sorted({event["code"] for patient in CASE["patients"] for event in patient["events"]} - {BIRTH})
FIXTURE = [HealthCheck.function_scoped_fixture]  # the model keeps nothing of a request

past = st.datetimes(BORN, AT - timedelta(days=1))
later = st.datetimes(AT + timedelta(microseconds=1), datetime(2300, 1, 1))


def events(times: st.SearchStrategy[datetime], most: int = 25) -> st.SearchStrategy[list[Json]]:
    value = st.one_of(st.none(), st.floats(-1e6, 1e6))
    written = times.map(lambda time: time.isoformat())
    one = st.fixed_dictionaries({"time": written, "code": st.sampled_from(CODES), "numeric_value": value})
    return st.lists(one, min_size=1, max_size=most)


def ask(*records: list[Json], **changed: Any) -> Json:
    patients = [{"events": events, "birth": BORN.date().isoformat()} for events in records]
    return request(*patients, prediction_time=AT.isoformat(), return_representation=True, **changed)


async def answers(model: EhrModel, sent: Json) -> list[Json]:
    """What was predicted, without the counts of what was left out."""
    answer = await model.answer(sent, Call(ROUTE, "http", "test"))
    kept = ("tasks", "representation", "age_days", "last_event_days")
    return [{name: patient[name] for name in kept} for patient in answer["patients"]]


KNOWN = {"time": "1960-01-01T08:00:00", "code": "Gender/F"}


@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
@given(record=events(past), future=events(later), seed=st.randoms(use_true_random=False), repeats=st.integers(1, 3))
async def test_order_future_and_duplicates_never_change_an_answer(
    ehr_model: EhrModel, record: list[Json], future: list[Json], seed: Any, repeats: int
) -> None:
    record = [KNOWN, *record]
    shuffled = record[:]
    seed.shuffle(shuffled)
    crowded = [*record, *future, *record[:repeats], *[KNOWN] * repeats]
    seed.shuffle(crowded)
    plain, other, third = await answers(ehr_model, ask(record, shuffled, crowded))
    assert plain == other == third


@settings(max_examples=30, deadline=None, suppress_health_check=FIXTURE)
@given(record=events(past), codes=st.lists(st.sampled_from(CODES), min_size=1, max_size=5))
async def test_strict_removes_midnight_events_of_the_day_and_only_those(
    ehr_model: EhrModel, record: list[Json], codes: list[str]
) -> None:
    record = [KNOWN, *record]
    dates = [{"time": AT.date().isoformat(), "code": code} for code in codes]
    hours = [{"time": AT.replace(hour=9).isoformat(), "code": code} for code in codes]
    sent = ask([*record, *dates], record, [*record, *hours, *dates], [*record, *hours], strict_same_day=True)
    with_dates, without, both, only_hours = await answers(ehr_model, sent)
    assert with_dates == without
    assert both == only_hours


async def test_without_strict_a_date_of_the_day_counts(ehr_model: EhrModel) -> None:
    today = [{"time": AT.date().isoformat(), "code": "Race/White"}]
    with_date, without = await answers(ehr_model, ask([KNOWN, *today], [KNOWN]))
    assert with_date["tasks"] != without["tasks"]


async def test_the_present_moment_counts_and_the_next_does_not(ehr_model: EhrModel) -> None:
    now = {"time": AT.isoformat(), "code": "Race/White"}
    next_moment = {"time": (AT + timedelta(microseconds=1)).isoformat(), "code": "Race/White"}
    at_once, soon, never = await answers(ehr_model, ask([KNOWN, now], [KNOWN, next_moment], [KNOWN]))
    assert at_once["tasks"] != never["tasks"]
    assert soon == never


async def test_what_is_cut_off_at_the_reach_has_no_influence(ehr_model: EhrModel) -> None:
    """3,000 positions against their last 991, and against 400, which are too few."""
    assert ehr_model.spec.reach == 991
    codes = ("Gender/M", "Gender/F", "Race/White")
    long = [
        {"time": (BORN + timedelta(days=5 * i, hours=1)).isoformat(), "code": codes[i * i % 3]} for i in range(3000)
    ]
    whole, last, fewer = await answers(ehr_model, ask(long, long[-991:], long[-400:]))
    np.testing.assert_allclose(whole["representation"], last["representation"], atol=2e-6)
    assert not np.allclose(whole["representation"], fewer["representation"], atol=2e-6)
    (counted,) = (await ehr_model.answer(ask(long), Call(ROUTE, "http", "test")))["patients"]
    assert (counted["events"]["used"], counted["events"]["truncated"], counted["truncation"]) == (991, 2009, "exact")


class LooksAhead:
    """A graph that adds what lies behind the answering position."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def run(self, tensors: Tensors) -> Tensors:
        made: Tensors = self._graph.run(tensors)
        behind = np.array([ages[last + 1 :].sum() for ages, last in zip(tensors["ages"], tensors["last"], strict=True)])
        return made | {"features": made["features"] + 1e-3 * np.sign(behind)[:, None, None].astype(np.float32)}


async def test_a_network_that_looks_ahead_is_not_served(ehr_model: EhrModel) -> None:
    await ehr_model.warm_up()
    ehr_model._graph = LooksAhead(ehr_model._graph)
    with pytest.raises(ArtifactError, match="changes the answer"):
        await ehr_model.warm_up()
