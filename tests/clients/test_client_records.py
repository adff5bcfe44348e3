"""predict_time_to_event over both transports: what may be sent, what comes back, what is drawn, what is never said."""

from __future__ import annotations

import base64
import io
import json
import math
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_records
from pressroom_client import AsyncClient, BadRequest, Client, EventCounts, UnexpectedAnswer, UsageError
from tiny_service import DIGEST, Behaviour

AT = "2022-01-01"
SECRET = "SECRET/42"


@pytest.fixture
def events() -> pd.DataFrame:
    """Two subjects, not in order, as a MEDS file has them: missing values, a column nobody knows."""
    return pd.DataFrame(
        {
            "subject_id": [7, 3, 7],
            "time": pd.to_datetime(["1960-05-01", None, "2020-03-04 05:06:07.000008"], format="ISO8601"),
            "code": ["MEDS_BIRTH", "MEDS_BIRTH", "LOINC/8480-6"],
            "numeric_value": np.array([np.nan, np.nan, 151.5], dtype=np.float32),
            "unit": [None, None, "mm[Hg]"],
            "hospital": ["a", "a", "b"],
        }
    )


def body(server: Behaviour) -> dict[str, Any]:
    sent = server.seen[-1].body
    return json.loads(sent if isinstance(sent, bytes) else sent.raw_input_contents[0][4:])


SENT = [
    {"id": "3", "events": [{"time": None, "code": "MEDS_BIRTH"}]},
    {
        "id": "7",
        "events": [
            {"time": "1960-05-01T00:00:00", "code": "MEDS_BIRTH"},
            {"time": "2020-03-04T05:06:07.000008", "code": "LOINC/8480-6", "numeric_value": 151.5, "unit": "mm[Hg]"},
        ],
    },
]


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_a_frame_becomes_one_patient_a_subject(
    client: Client, server: Behaviour, events: pd.DataFrame, library: str
) -> None:
    frame = events if library == "pandas" else pa.Table.from_pandas(events, preserve_index=False)
    result = client.predict_time_to_event(frame, AT, model="recorder:1", tasks=["death"], horizons_days=[365, 730])
    expected = {"model": "recorder", "version": "1", "prediction_time": AT, "patients": SENT, "tasks": ["death"]}
    assert body(server) == {**expected, "horizons_days": [365.0, 730.0]}
    assert [patient.id for patient in result] == ["3", "7"]
    assert result["7"].events == EventCounts(
        received=2, used=2, dropped_future=0, dropped_same_day=0, without_time=0, duplicates=0, unknown=0,
        repeated=0, truncated=0,
    )  # fmt: skip


def test_answers_are_typed_and_say_what_answered(client: Client, events: pd.DataFrame) -> None:
    result = client.predict_time_to_event(
        events, AT, model="recorder", tasks=["death", "never"], horizons_days=[100, 1000], return_representation=True
    )
    assert (result.model, result.version, result.backbone, result.batch_rows) == ("recorder", "1", DIGEST, 2)
    assert result.timings.inference_ms == 2.0
    death = result["7"]["death"]
    assert death.risk.tolist() == pytest.approx([1 - math.exp(-0.1), 1 - math.exp(-0.75)])
    assert death.hazard.edges_days.tolist() == [0, 500, math.inf]
    assert death.median_days == 886.3
    assert result["7"]["never"].median_days is None
    assert result[0].representation is not None
    assert result[0].representation.tolist() == [0.5, -1.0]
    with pytest.raises(KeyError):
        result["8"]
    with pytest.raises(KeyError):
        result[0]["flu"]
    with pytest.raises(UsageError, match="2 patients"):
        _ = result.single


def test_a_hazard_tells_survival_at_any_time(client: Client, events: pd.DataFrame) -> None:
    one = client.predict_time_to_event(events, AT, model="recorder", horizons_days=[10, 500, 1e6])[0]["death"]
    assert one.hazard.survival(one.horizons_days) == pytest.approx(one.survival)
    assert float(one.hazard.survival(0.0)) == 1.0


def test_answers_become_a_long_frame(client: Client, events: pd.DataFrame) -> None:
    frame = client.predict_time_to_event(events, AT, model="recorder", horizons_days=[100, 1000]).frame
    assert list(frame.columns) == ["id", "task", "horizon_days", "risk", "survival", "median_days"]
    assert frame["id"].tolist() == ["3", "3", "7", "7"]
    assert frame["horizon_days"].tolist() == [100, 1000, 100, 1000]


@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_parquet_file_is_sent_as_it_is(
    client: Client, server: Behaviour, events: pd.DataFrame, tmp_path: Path, as_bytes: bool
) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.Table.from_pandas(events), path)
    result = client.predict_time_to_event(path.read_bytes() if as_bytes else path, AT, model="recorder")
    assert base64.b64decode(body(server)["events_parquet"]) == path.read_bytes()
    assert [patient.id for patient in result] == ["3", "7"]


def test_one_patient_may_be_a_list_of_events(client: Client, server: Behaviour) -> None:
    events = [{"time": date(1960, 5, 1), "code": "MEDS_BIRTH"}, {"time": "2020-01-01", "code": "A", "unit": None}]
    result = client.predict_time_to_event(events, datetime(2022, 1, 1, tzinfo=UTC), model="recorder")
    assert body(server)["patients"] == [
        {"events": [{"time": "1960-05-01", "code": "MEDS_BIRTH"}, {"time": "2020-01-01", "code": "A"}]}
    ]
    assert body(server)["prediction_time"] == "2022-01-01T00:00:00+00:00"
    assert result.single.id is None


def test_patients_may_have_moments_and_births_of_their_own(
    client: Client, server: Behaviour, events: pd.DataFrame
) -> None:
    moments = {7: pd.Timestamp("2021-06-01"), 3: np.datetime64("2022-06-01")}
    client.predict_time_to_event(events, moments, births={"3": date(1950, 1, 1)}, model="recorder")
    first, second = body(server)["patients"]
    assert (first["prediction_time"], first["birth"]) == ("2022-06-01", "1950-01-01")
    assert second["prediction_time"] == "2021-06-01T00:00:00"
    assert "birth" not in second
    assert "prediction_time" not in body(server)
    with pytest.raises(UsageError, match="none for some subjects"):
        client.predict_time_to_event(events, {7: "2021-06-01"}, model="recorder")


@pytest.mark.parametrize(
    ("argument", "options", "words"),
    [
        (pd.DataFrame({"subject_id": [1], "time": [None]}), {}, "no column code"),
        (5, {}, "events is a int"),
        ([], {"tasks": "death"}, "tasks is one string"),
        (b"", {"births": {1: "1950-01-01"}}, "no births"),
        (Path("nowhere.parquet"), {}, "cannot be read"),
        (pd.DataFrame({"subject_id": [None], "time": ["2020"], "code": [SECRET]}), {}, "no subject_id"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(
    client: Client, server: Behaviour, argument: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as refusal:
        client.predict_time_to_event(argument, AT, **options)
    assert server.seen == []
    assert SECRET not in str(refusal.value)


def test_a_moment_of_another_kind_is_refused(client: Client, events: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="prediction_time is a int"):
        client.predict_time_to_event(events, 2022, model="recorder")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="NaT"):
        client.predict_time_to_event(events, np.datetime64("NaT"), model="recorder")


@pytest.mark.parametrize(
    ("moment", "sent"),
    [
        (np.datetime64("2022-06"), "2022-06-01"),
        (np.datetime64("2022-06-01T07", "h"), "2022-06-01T07:00:00.000000"),
        (np.datetime64("2022-06-01T07:08:09.123456789"), "2022-06-01T07:08:09.123456"),
        (pd.Timestamp("2022-06-01T07:08:09.123456789"), "2022-06-01T07:08:09.123456"),
        (pd.Timestamp("2022-06-01", tz="Asia/Shanghai"), "2022-06-01T00:00:00+08:00"),
    ],
)
@pytest.mark.parametrize("transport", ["http"])
def test_moments_travel_as_the_server_reads_them(client: Client, server: Behaviour, moment: Any, sent: str) -> None:
    client.predict_time_to_event([{"time": moment, "code": "A"}], moment)
    assert body(server)["prediction_time"] == body(server)["patients"][0]["events"][0]["time"] == sent


def test_a_refusal_names_the_place(client: Client) -> None:
    with pytest.raises(BadRequest) as refusal:
        client.predict_time_to_event([], AT, model="recorder")
    assert refusal.value.field == "patients[0].events"


def test_an_answer_that_is_none_is_not_quoted(client: Client) -> None:
    with pytest.raises(UnexpectedAnswer) as refusal:
        client.predict_time_to_event([{"time": AT, "code": SECRET}], AT, tasks=[tiny_records.STRANGE], model="recorder")
    assert SECRET not in str(refusal.value)


async def test_the_async_client_answers_alike(url: str, server: Behaviour, events: pd.DataFrame) -> None:
    async with AsyncClient(url) as client:
        result = await client.predict_time_to_event(events, AT, model="recorder", strict_same_day=True)
    assert body(server)["strict_same_day"] is True
    assert [patient.id for patient in result] == ["3", "7"]


@pytest.mark.parametrize("transport", ["http"])
def test_curves_are_drawn_with_horizons_marked(client: Client, events: pd.DataFrame) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    result = client.predict_time_to_event(events, AT, model="recorder", tasks=["death", "never"], horizons_days=[100])
    axes = result[0].plot(until_days=50)
    curves = [line for line in axes.lines if len(line.get_xdata()) > 1]
    assert [line.get_label() for line in curves] == ["death", "never"]
    assert curves[0].get_ydata()[-1] == pytest.approx(math.exp(-0.05))
    assert [len(line.get_xdata()) for line in axes.lines[1::2]] == [0, 0]
    again = result[0]["death"].plot(pyplot.subplots()[1])
    assert again.lines[1].get_xdata().tolist() == [100]
    target = io.BytesIO()
    axes.figure.savefig(target)
    assert target.getvalue()[:4] == b"\x89PNG"
    pyplot.close("all")


@pytest.mark.parametrize("transport", ["http"])
def test_curves_without_matplotlib_say_how_to_get_it(
    client: Client, events: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = client.predict_time_to_event(events, AT, model="recorder")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError) as refusal:
        result[0].plot()
    assert "pressroom-client[plot]" in str(refusal.value.hint)
