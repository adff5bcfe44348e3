"""Records people really send, one thing wrong or odd in each: an exact answer or an exact refusal, by place only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from live_server import LiveServer
from refusals import check_http
from tutorial_records import BIRTH, GOLDEN, MODEL, ROUTE, TASK, record, request

from models.errors import InputError
from services.core.call import Call
from services.ehr import EhrModel

Json = dict[str, Any]
CANARY = "CANARY-7391"
KNOWN = "Gender/F"
CONFIG = json.loads((GOLDEN / "config.json").read_bytes())
CODES = [code for code, _ in CONFIG["task_config"]["task_kwargs"]["pretraining_task_info"]]
BORN = {"time": "1960-05-05", "code": BIRTH}
SEEN = {"time": "1990-01-01T10:00:00", "code": KNOWN}


def one(*events: Json, **changed: Any) -> Json:
    """A request about one patient with these events; a birth stands before them."""
    return request({"events": [BORN, *events]}, **changed)


def event(**changed: Any) -> Json:
    return SEEN | changed


@dataclass(frozen=True)
class Refused:
    """name: what is odd; code and field of the refusal."""

    name: str
    sent: Json
    code: str
    field: str | None


FIRST = "patients[0].events[1]"
REFUSED = [
    Refused("no birth", request({"events": [SEEN]}), "birth_missing", "patients[0].birth"),
    Refused("birth is null", request({"events": [SEEN], "birth": None}), "birth_missing", "patients[0].birth"),
    Refused(
        "birth is no time", request({"events": [SEEN], "birth": CANARY}), "timestamps_invalid", "patients[0].birth"
    ),
    Refused("birth is a number", request({"events": [SEEN], "birth": 1960}), "timestamps_invalid", "patients[0].birth"),
    Refused("two births", one(event(code=BIRTH)), "birth_conflict", "patients[0].events"),
    Refused(
        "birth and its event differ",
        request({"events": [BORN, SEEN], "birth": "1960-05-06"}),
        "birth_conflict",
        "patients[0].birth",
    ),
    Refused(
        "born tomorrow", one(prediction_time="1960-05-04"), "prediction_before_birth", "patients[0].prediction_time"
    ),
    Refused(
        "birth given, prediction earlier",
        request({"events": [SEEN], "birth": "2000-01-01"}),
        "prediction_before_birth",
        "patients[0].prediction_time",
    ),
    Refused("an event before birth", one(event(time="1960-05-04T23:59:59")), "event_before_birth", f"{FIRST}.time"),
    Refused("a second before birth", one(event(time="1959-05-05T00:00:00")), "event_before_birth", f"{FIRST}.time"),
    Refused("dead", one(event(code="MEDS_DEATH")), "prediction_after_death", "patients[0].prediction_time"),
    Refused(
        "dead on the day",
        one(SEEN, {"time": "1995-01-01", "code": "MEDS_DEATH"}),
        "prediction_after_death",
        "patients[0].prediction_time",
    ),
    Refused(
        "127 years old", one(SEEN, prediction_time="2087-01-01"), "age_out_of_range", "patients[0].prediction_time"
    ),
    Refused("no events", request({"events": [], "birth": "1960-05-05"}), "history_empty", "patients[0].events"),
    Refused(
        "everything is later",
        request({"events": [event(time="1999-01-01")], "birth": "1960-05-05"}),
        "history_empty",
        "patients[0].events",
    ),
    Refused(
        "only static events",
        request({"events": [event(time=None)], "birth": "1960-05-05"}),
        "history_empty",
        "patients[0].events",
    ),
    Refused(
        "only unknown codes",
        request({"events": [event(code=CANARY)], "birth": "1960-05-05"}),
        "history_unknown",
        "patients[0].events",
    ),
    Refused("nothing but a birth's event", one(), "history_unknown", "patients[0].events"),
    Refused("NaN", one(event(numeric_value=math.nan)), "value_not_finite", f"{FIRST}.numeric_value"),
    Refused("infinity", one(event(numeric_value=math.inf)), "value_not_finite", f"{FIRST}.numeric_value"),
    Refused("a number of 400 digits", one(event(numeric_value=10**400)), "value_not_finite", f"{FIRST}.numeric_value"),
    Refused("a number in quotes", one(event(numeric_value="7.1")), "value_not_numeric", f"{FIRST}.numeric_value"),
    Refused("true", one(event(numeric_value=True)), "value_not_numeric", f"{FIRST}.numeric_value"),
    Refused("a list of numbers", one(event(numeric_value=[1])), "value_not_numeric", f"{FIRST}.numeric_value"),
    Refused("a text value that is a number", one(event(text_value=5)), "invalid_request", f"{FIRST}.text_value"),
    Refused("a unit that is an object", one(event(unit={"a": 1})), "invalid_request", f"{FIRST}.unit"),
    Refused("a text of 600 characters", one(event(text_value="x" * 600)), "invalid_request", f"{FIRST}.text_value"),
    Refused("no code", one({"time": "1990-01-01"}), "invalid_request", f"{FIRST}.code"),
    Refused("an empty code", one(event(code="")), "invalid_request", f"{FIRST}.code"),
    Refused("a code that is a number", one(event(code=59621000)), "invalid_request", f"{FIRST}.code"),
    Refused("a code of 600 characters", one(event(code="x" * 600)), "invalid_request", f"{FIRST}.code"),
    Refused("no time", one({"code": KNOWN}), "invalid_request", f"{FIRST}.time"),
    Refused("an American date", one(event(time="01/02/1990")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("epoch seconds", one(event(time=631152000)), "timestamps_invalid", f"{FIRST}.time"),
    Refused("the 30th of February", one(event(time="1990-02-30")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("25 o'clock", one(event(time="1990-01-01T25:00:00")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("a leap second", one(event(time="1990-12-31T23:59:60")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("a week date", one(event(time="1990-W05-1")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("digits of another script", one(event(time="١٩٩٠-٠١-٠١")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("year 0", one(event(time="0000-01-01")), "timestamps_invalid", f"{FIRST}.time"),
    Refused("an empty time", one(event(time="")), "timestamps_invalid", f"{FIRST}.time"),
    Refused(
        "one time with an offset", one(event(time="1990-01-01T10:00:00+01:00")), "timestamps_invalid", f"{FIRST}.time"
    ),
    Refused(
        "one time without",
        one(event(time="1990-01-01T10:00:00Z"), prediction_time="1995-01-01T00:00:00Z"),
        "timestamps_invalid",
        "patients[0].events[0].time",
    ),
    Refused(
        "an offset that leaves the calendar",
        request(
            {"events": [event(time="0001-01-01T00:00:00+14:00")], "birth": "1960-05-05"},
            prediction_time="1995-01-01T00:00:00-12:00",
        ),
        "timestamps_invalid",
        "patients[0].events[0].time",
    ),
    Refused("a field of another schema", one(event(value=3.0)), "invalid_request", FIRST),
    Refused("an event that is a list", one(["1990-01-01", KNOWN]), "invalid_request", FIRST),  # type: ignore[arg-type]
    Refused("an event that is null", one(None), "invalid_request", FIRST),  # type: ignore[arg-type]
    Refused(
        "events are an object", request({"events": {"time": "1990-01-01"}}), "invalid_request", "patients[0].events"
    ),
    Refused("no events field", request({"birth": "1960-05-05"}), "invalid_request", "patients[0].events"),
    Refused("a patient that is a text", request("x"), "invalid_request", "patients[0]"),  # type: ignore[arg-type]
    Refused("a patient's field misspelt", request({"event": [SEEN]}), "invalid_request", "patients[0]"),
    Refused("an id that is a number", request({"id": 7, "events": [BORN]}), "invalid_request", "patients[0].id"),
    Refused("patients are an object", request() | {"patients": record()}, "invalid_request", "patients"),
    Refused("no patients", request() | {"patients": []}, "empty_batch", "patients"),
    Refused(
        "neither patients nor a file", {"model": MODEL, "prediction_time": "1995-01-01"}, "invalid_request", "patients"
    ),
    Refused("patients and a file", request() | {"events_parquet": "AAAA"}, "invalid_request", "patients"),
    Refused("a file that is none", {"model": MODEL, "events_parquet": "AAAA"}, "parquet_invalid", "events_parquet"),
    Refused("a file not in base64", {"model": MODEL, "events_parquet": "ä"}, "parquet_invalid", "events_parquet"),
    Refused("no prediction time", request(prediction_time=None), "invalid_request", "prediction_time"),
    Refused("a prediction time that is none", request(prediction_time=CANARY), "timestamps_invalid", "prediction_time"),
    Refused(
        "a patient's own prediction time that is none",
        request(record(prediction_time="soon")),
        "timestamps_invalid",
        "patients[0].prediction_time",
    ),
    Refused("an unknown task", request(tasks=[TASK, CANARY]), "task_not_found", "tasks[1]"),
    Refused("a version no adapter has", request(tasks=["nervous:9"]), "task_not_found", "tasks[0]"),
    Refused("no tasks", request(tasks=[]), "invalid_request", "tasks"),
    Refused("one task as a text", request(tasks=TASK), "invalid_request", "tasks"),
    Refused("a task twice", request(tasks=[TASK, TASK]), "invalid_request", "tasks"),
    Refused("a task that is a number", request(tasks=[1]), "invalid_request", "tasks[0]"),
    Refused("300 tasks", request(tasks=[str(i) for i in range(300)]), "invalid_request", "tasks"),
    Refused("no horizons", request(horizons_days=[]), "invalid_request", "horizons_days"),
    Refused("a horizon of 0", request(horizons_days=[0]), "invalid_request", "horizons_days[0]"),
    Refused("a negative horizon", request(horizons_days=[365, -1]), "invalid_request", "horizons_days[1]"),
    Refused("a horizon of 300 years", request(horizons_days=[110_000]), "invalid_request", "horizons_days[0]"),
    Refused("a horizon that is null", request(horizons_days=[None]), "invalid_request", "horizons_days[0]"),
    Refused("a horizon in words", request(horizons_days=["1y"]), "value_not_numeric", "horizons_days[0]"),
    Refused("65 horizons", request(horizons_days=[1] * 65), "invalid_request", "horizons_days"),
    Refused(
        "an answer of four million numbers",
        request(*[{"events": [BORN]}] * 1000, tasks=CODES, horizons_days=list(range(1, 33))),
        "too_many_rows",
        "patients",
    ),
    Refused("1025 patients", request(*[{"events": []}] * 1025), "too_many_rows", "patients"),
    Refused("strict in quotes", request(strict_same_day="true"), "invalid_request", "strict_same_day"),
    Refused("a field nobody knows", request() | {CANARY: 1}, "invalid_request", None),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_an_awkward_record_is_refused_by_place_and_never_quoted(ehr_refuser: EhrModel, case: Refused) -> None:
    with pytest.raises(InputError) as refused:
        await ehr_refuser.answer(case.sent, Call(ROUTE, "http", "test"))
    assert (refused.value.code, refused.value.field) == (case.code, case.field)
    assert CANARY not in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize("name", ["NaN", "an unknown task", "only unknown codes", "a field nobody knows", "no birth"])
def test_the_same_refusals_over_http(ehr_server: LiveServer, name: str) -> None:
    case = next(case for case in REFUSED if case.name == name)
    body = json.dumps(case.sent)  # with a bare NaN, as many clients write it
    response = ehr_server.post(ROUTE, content=body, headers={"Content-Type": "application/json"})
    check_http(response, 422, case.code, case.field)
    assert CANARY not in response.text


Check = Callable[[Json], bool]


def counts(**wanted: int) -> Check:
    """That the counts are these, all others 0."""
    return lambda patient: {k: v for k, v in patient["events"].items() if v} == wanted


LATER = "1999-01-01"
TODAY = {"prediction_time": "1995-01-01T12:00:00"}
BIRTH_DATE = {"birth": "1960-05-05"}
ANSWERED: list[tuple[str, Json, Check]] = [
    ("a birth beside the record", request({"events": [SEEN], **BIRTH_DATE}), counts(received=1, used=1)),
    ("a birth's event, a code like others", one(SEEN), counts(received=2, used=1, unknown=1)),
    (
        "a birth at a clock time, given as a date too",
        request({"events": [BORN | {"time": "1960-05-05T09:30:00"}, SEEN], **BIRTH_DATE}),
        counts(received=2, used=1, unknown=1),
    ),
    ("a birth's event twice", one({**BORN}, SEEN), counts(received=3, used=1, duplicates=1, unknown=1)),
    ("the same event thrice", one(SEEN, SEEN, SEEN), counts(received=4, used=1, duplicates=2, unknown=1)),
    (
        "a code again later that day",
        one(SEEN, event(time="1990-01-01T18:00:00")),
        counts(received=3, used=1, repeated=1, unknown=1),
    ),
    ("a code again the next day", one(SEEN, event(time="1990-01-02")), counts(received=3, used=2, unknown=1)),
    ("an unknown code among known ones", one(SEEN, event(code="X/1")), counts(received=3, used=1, unknown=2)),
    ("a static event", one(SEEN, event(time=None)), counts(received=3, used=1, without_time=1, unknown=1)),
    ("a later event", one(SEEN, event(time=LATER)), counts(received=3, used=1, dropped_future=1, unknown=1)),
    (
        "a later death",
        one(SEEN, event(time=LATER, code="MEDS_DEATH")),
        counts(received=3, used=1, dropped_future=1, unknown=1),
    ),
    ("a later birth", one(SEEN, BORN | {"time": LATER}), counts(received=3, used=1, dropped_future=1, unknown=1)),
    ("an event at the prediction time", one(event(time="1995-01-01")), counts(received=2, used=1, unknown=1)),
    (
        "the same under strict",
        one(SEEN, event(time="1995-01-01"), strict_same_day=True),
        counts(received=3, used=1, dropped_same_day=1, unknown=1),
    ),
    (
        "strict leaves hours alone",
        one(event(time="1995-01-01T08:00:00"), **TODAY, strict_same_day=True),
        counts(received=2, used=1, unknown=1),
    ),
    (
        "strict takes mere dates of the day",
        one(SEEN, event(time="1995-01-01"), **TODAY, strict_same_day=True),
        counts(received=3, used=1, dropped_same_day=1, unknown=1),
    ),
    (
        "strict leaves a newborn's birth",
        request(
            {"events": [BORN | {"time": "1995-01-01"}, event(time="1995-01-01T08:00:00")]},
            **TODAY,
            strict_same_day=True,
        ),
        counts(received=2, used=1, unknown=1),
    ),
    (
        "strict forgets a death of the day",
        one(SEEN, {"time": "1995-01-01", "code": "MEDS_DEATH"}, strict_same_day=True),
        counts(received=3, used=1, dropped_same_day=1, unknown=1),
    ),
    ("events in reverse", request({"events": [SEEN, BORN]}), counts(received=2, used=1, unknown=1)),
    ("124 years old", one(SEEN, prediction_time="2085-01-01"), counts(received=2, used=1, unknown=1)),
    (
        "a value where the dictionary has no bins",
        one(event(numeric_value=1e300)),
        counts(received=2, used=1, unknown=1),
    ),
    (
        "nulls in every optional place",
        one(event(numeric_value=None, text_value=None, unit=None)),
        counts(received=2, used=1, unknown=1),
    ),
    ("an emoji for a unit", one(event(unit="🩺")), counts(received=2, used=1, unknown=1)),
    ("microseconds", one(event(time="1990-01-01T10:00:00.000001")), counts(received=2, used=1, unknown=1)),
    ("a blank for the T", one(event(time="1990-01-01 10:00")), counts(received=2, used=1, unknown=1)),
    (
        "offsets throughout",
        request(
            {"events": [event(time="1990-01-01T10:00:00+02:00")], **BIRTH_DATE}, prediction_time="1995-01-01T00:00Z"
        ),
        counts(received=1, used=1),
    ),
    (
        "a patient's own prediction time",
        request({"events": [BORN, SEEN, event(time="1993-03-03")], "prediction_time": "1992-01-01"}),
        counts(received=3, used=1, dropped_future=1, unknown=1),
    ),
]


@pytest.mark.parametrize(("name", "sent", "check"), ANSWERED, ids=[name for name, _, _ in ANSWERED])
async def test_an_odd_record_is_answered_and_its_events_accounted_for(
    ehr_model: EhrModel, name: str, sent: Json, check: Check
) -> None:
    (patient,) = (await ehr_model.answer(sent, Call(ROUTE, "http", "test")))["patients"]
    received, *rest = patient["events"].values()
    assert received == sum(rest)
    assert check(patient), patient["events"]
    assert all(math.isfinite(risk) for task in patient["tasks"] for risk in task["risk"])


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) + len(ANSWERED) >= 100


async def test_offsets_are_one_clock_and_days_are_the_prediction_time_s(ehr_model: EhrModel) -> None:
    """Two entries of one evening at -05:00 lie on two days at +03:00, where the second is no repeat."""
    events = [{**SEEN, "time": "1990-01-01T15:00:00-05:00"}, {**SEEN, "time": "1990-01-01T23:30:00-04:00"}]
    used = []
    for offset in ("-05:00", "+03:00"):
        patient = {"events": events, "birth": "1960-05-05"}
        sent = request(patient, prediction_time=f"1995-01-01T00:00:00{offset}")
        (answer,) = (await ehr_model.answer(sent, Call(ROUTE, "http", "test")))["patients"]
        used.append(answer["events"]["used"])
    assert used == [1, 2]
