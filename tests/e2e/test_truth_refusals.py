"""Bad requests of POST /v1/forecast/truth and of the fields that ask for intervals: refused in words, by field."""

from __future__ import annotations

from typing import Any

import etth1
import pytest
from etth1 import CARD
from live_server import LiveServer

TRUTH = "/v1/forecast/truth"
HOUR = etth1.stamps(etth1.START + 96, 1)


def told(**fields: Any) -> dict[str, Any]:
    """A good truth with fields replaced; None removes."""
    truth = {"id": "meter", "timestamps": HOUR, "values": {"OT": [1.0]}} | fields
    return {"model": CARD, "truth": {key: value for key, value in truth.items() if value is not None}}


BAD_TRUTHS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "no truth": ({"model": CARD}, "invalid_request", "truth"),
    "an empty list": ({"model": CARD, "truth": []}, "empty_batch", "truth"),
    "a number": ({"model": CARD, "truth": 7}, "invalid_request", "truth"),
    "an unknown field": ({**told(), "levels": [80]}, "invalid_request", "levels"),
    "an unknown field of a series": (told(start="2017-10-24"), "invalid_request", "truth[0].start"),
    "neither request id nor series id": (told(id=None), "invalid_request", "truth[0]"),
    "an id and no time": (told(timestamps=None), "invalid_request", "truth[0]"),
    "a number for an id": (told(id=7), "invalid_request", "truth[0].id"),
    "a number for a request id": ({**told(), "request_id": 7}, "invalid_request", "request_id"),
    "a request id nobody knows": ({**told(), "request_id": "x"}, "invalid_request", "request_id"),
    "no values": (told(values={}), "invalid_request", "truth[0].values"),
    "a column nobody knows": (told(values={"TEMP": [1.0]}), "columns_unexpected", "truth[0].values"),
    "text for a value": (told(values={"OT": ["1"]}), "value_not_numeric", "truth[0].values.OT[0]"),
    "columns of different lengths": (told(values={"OT": [1.0], "HULL": []}), "length_mismatch", "truth[0].values.HULL"),
    "two rows, one timestamp": (told(values={"OT": [1.0, 2.0]}), "length_mismatch", "truth[0].timestamps"),
    "a timestamp that is none": (told(timestamps=["noon"]), "timestamps_invalid", "truth[0].timestamps[0]"),
    "a zone nobody knows": (told(tz="Mars/Olympus"), "timestamps_invalid", "truth[0].tz"),
}


@pytest.mark.parametrize("name", BAD_TRUTHS)
def test_a_bad_truth_is_refused(server: LiveServer, name: str) -> None:
    request, code, field = BAD_TRUTHS[name]
    response = server.post(TRUTH, json=request)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, code, field), error


BAD_WISHES: dict[str, tuple[dict[str, Any], str]] = {
    "levels as text": ({"levels": "80"}, "levels"),
    "no level": ({"levels": []}, "levels"),
    "a fraction": ({"levels": [0.8]}, "levels[0]"),
    "a level of 0": ({"levels": [0]}, "levels[0]"),
    "true": ({"levels": [True]}, "levels[0]"),
    "21 levels": ({"levels": list(range(1, 22))}, "levels"),
    "an unknown kind": ({"levels": [80], "interval": "bayes"}, "interval"),
    "an adaptive level nobody watches": ({"levels": [60], "interval": "adaptive"}, "levels[0]"),
    "an unknown policy": ({"missing": "mean"}, "missing"),
    "a policy of null": ({"missing": None}, "missing"),
    "roll_out as text": ({"roll_out": "yes"}, "roll_out"),
    "no columns": ({"columns": []}, "columns"),
    "a column twice": ({"columns": ["OT", "OT"]}, "columns[1]"),
}


@pytest.mark.parametrize("name", BAD_WISHES)
def test_a_bad_wish_is_refused(server: LiveServer, name: str) -> None:
    fields, field = BAD_WISHES[name]
    response = server.post(etth1.FORECAST, json=etth1.request(model=CARD, **fields))
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "invalid_request", field), error
