"""Bad requests of POST /v1/forecast: each is a good one with one thing changed."""

from __future__ import annotations

from typing import Any

import etth1

from .case import FORECAST, HttpCase, but, edited, nested, without

VALUES, STAMPS = "series[0].values", "series[0].timestamps"
_GOOD = etth1.request()
_CARD = etth1.request(model=etth1.CARD)
_TWO = etth1.request(etth1.series(), etth1.series(etth1.START + 500))
_STARTED = etth1.request(etth1.series(timestamps=None, start=etth1.stamps()[0], freq="h"))
_OT = "series.0.values.OT"


def _case(name: str, body: Any, code: str, field: str | None, status: int = 422) -> HttpCase:
    return HttpCase(name, FORECAST, body, status, code, field)


def _value(name: str, value: Any, code: str) -> HttpCase:
    return _case(name, but(_GOOD, f"{_OT}.50", value), code, f"{VALUES}.OT[50]")


def _stamp(name: str, value: Any, code: str = "timestamps_invalid", index: int = 50) -> HttpCase:
    return _case(name, but(_GOOD, f"series.0.timestamps.{index}", value), code, f"{STAMPS}[{index}]")


def _times(name: str, stamps: Any, code: str, field: str = STAMPS) -> HttpCase:
    return _case(name, but(_GOOD, "series.0.timestamps", stamps), code, field)


_HOURS = etth1.epochs()

CASES = (
    # which model
    _case("no model named", without(_GOOD, "model"), "invalid_request", "model"),
    _case("an unknown model", but(_GOOD, "model", "arima"), "model_not_found", "model", 404),
    _case("a model in capitals", but(_GOOD, "model", "CARD-ETTh1"), "model_not_found", "model", 404),
    _case("a path for a model", but(_GOOD, "model", "../../etc/passwd"), "model_not_found", "model", 404),
    _case("a very long model name", but(_GOOD, "model", "m" * 5000), "model_not_found", "model", 404),
    _case("a model with a zero byte", but(_GOOD, "model", "card-etth1\0"), "model_not_found", "model", 404),
    _case("an unknown version", but(_GOOD, "version", "7"), "version_not_found", "version", 404),
    _case("latest for a version", but(_GOOD, "version", "latest"), "version_not_found", "version", 404),
    _case("two colons in the model", but(_GOOD, "model", "card-etth1:1:1"), "version_not_found", "version", 404),
    _case("two versions", _GOOD | {"model": "card-etth1:1", "version": "3"}, "invalid_request", "version"),
    _case("a number for a model", but(_GOOD, "model", 1), "invalid_request", "model"),
    _case("a list of models", but(_GOOD, "model", [etth1.CARD]), "invalid_request", "model"),
    _case("a number for a version", but(_GOOD, "version", 1), "invalid_request", "version"),
    _case("true for a version", but(_GOOD, "version", True), "invalid_request", "version"),
    # the request
    _case("an empty object", {}, "invalid_request", "model"),
    _case("a misspelt field", but(_GOOD, "horizons", 12), "invalid_request", "horizons"),
    _case("the prototype", but(_GOOD, "__proto__", {"admin": True}), "invalid_request", "__proto__"),
    _case("an OpenAI request", {"model": etth1.CARD, "messages": []}, "invalid_request", "messages"),
    _case("an OIP request", {"model": etth1.CARD, "inputs": []}, "invalid_request", "inputs"),
    _case("no series", without(_GOOD, "series"), "invalid_request", "series"),
    _case("series null", but(_GOOD, "series", None), "invalid_request", "series"),
    _case("series true", but(_GOOD, "series", True), "invalid_request", "series"),
    _case("series without entries", but(_GOOD, "series", []), "empty_batch", "series"),
    _case("a null entry", but(_GOOD, "series.0", None), "invalid_request", "series[0]"),
    _case("a nested entry", but(_GOOD, "series.0", nested(300)), "invalid_request", "series[0]"),
    _case("an empty entry", but(_GOOD, "series.0", {}), "invalid_request", VALUES),
    _case("the second entry empty", but(_TWO, "series.1", {}), "invalid_request", "series[1].values"),
    _case("rows over the limit", but(_GOOD, "series", [{}] * 1025), "too_many_rows", "series"),
    _case("a series field unknown", but(_GOOD, "series.0.target", [1.0]), "invalid_request", "series[0].target"),
    _case("an id that is an object", but(_GOOD, "series.0.id", {}), "invalid_request", "series[0].id"),
    # horizon
    _case("one step too many", but(_GOOD, "horizon", 97), "horizon_too_long", "horizon"),
    _case("a huge horizon", but(_GOOD, "horizon", 10**18), "horizon_too_long", "horizon"),
    _case("a horizon beyond 64 bits", but(_GOOD, "horizon", 10**30), "invalid_request", "horizon"),
    _case("a zero horizon", but(_GOOD, "horizon", 0), "invalid_request", "horizon"),
    _case("a negative horizon", but(_GOOD, "horizon", -96), "invalid_request", "horizon"),
    _case("a horizon with a point", but(_GOOD, "horizon", 96.0), "invalid_request", "horizon"),
    _case("a horizon in a list", but(_GOOD, "horizon", [12]), "invalid_request", "horizon"),
    _case("a horizon that is NaN", but(_GOOD, "horizon", float("nan")), "invalid_request", "horizon"),
    # columns
    _case("values as rows", but(_GOOD, "series.0.values", [[1.0] * 7] * 96), "invalid_request", VALUES),
    _case("values null", but(_GOOD, "series.0.values", None), "invalid_request", VALUES),
    _case("no columns", but(_CARD, "series.0.values", {}), "columns_missing", VALUES),
    _case("one column gone", without(_CARD, "series.0.values.LULL"), "columns_missing", VALUES),
    _case("a column in lower case", edited(_GOOD, "series.0.values", lambda v: {**v, "ot": v["OT"]}),
          "columns_unexpected", VALUES),
    _case("a column without a name", edited(_CARD, "series.0.values", lambda v: {**v, "": v["OT"]}),
          "columns_unexpected", VALUES),
    _case("two columns exchanged", edited(_CARD, "series.0.values", lambda v: {"HULL": v["HULL"], **v}),
          "columns_reordered", VALUES),
    _case("a column that is text", but(_GOOD, _OT, "1,2,3"), "invalid_request", f"{VALUES}.OT"),
    _case("a column that is a number", but(_GOOD, _OT, 1.5), "invalid_request", f"{VALUES}.OT"),
    _case("a column one value short", edited(_GOOD, _OT, lambda c: c[1:]), "length_mismatch", f"{VALUES}.OT"),
    _case("a column one value long", edited(_GOOD, _OT, lambda c: [*c, 0.0]), "length_mismatch", f"{VALUES}.OT"),
    _case("an empty column", but(_GOOD, _OT, []), "length_mismatch", f"{VALUES}.OT"),
    # history
    _case("a row too few", but(_GOOD, "series.0", etth1.series(length=95)), "history_too_short", VALUES),
    _case("one row", but(_CARD, "series.0", etth1.series(length=1)), "history_too_short", VALUES),
    _case("the second series short", but(_TWO, "series.1", etth1.series(length=94)), "history_too_short",
          "series[1].values"),
    # values
    _value("null for a value", None, "value_not_finite"),
    _value("NaN for a value", float("nan"), "value_not_finite"),
    _value("infinity for a value", float("inf"), "value_not_finite"),
    _value("minus infinity for a value", float("-inf"), "value_not_finite"),
    _value("NaN in quotes", "NaN", "value_not_numeric"),
    _value("a number in quotes", "21.4", "value_not_numeric"),
    _value("an empty text for a value", "", "value_not_numeric"),
    _value("true for a value", True, "value_not_numeric"),
    _value("false for a value", False, "value_not_numeric"),
    _value("a list for a value", [21.4], "value_not_numeric"),
    _value("an object for a value", {"value": 21.4}, "value_not_numeric"),
    _value("deep lists for a value", nested(400), "value_not_numeric"),
    _case("the largest float64", but(_GOOD, f"{_OT}.50", 1.7e308), "value_out_of_range", VALUES),
    _case("the most negative float64", but(_CARD, f"{_OT}.50", -1.7e308), "value_out_of_range", VALUES),
    _case("a value float32 cannot hold", but(_CARD, f"{_OT}.50", 1e39), "value_out_of_range", VALUES),
    # time stamps
    _stamp("a stamp that is no time", "noon"),
    _stamp("a stamp with a month 13", "2017-13-01 00:00:00"),
    _stamp("a stamp in American order", "10/22/2017 02:00"),
    _stamp("a stamp with a 25th hour", "2017-10-22 25:00:00"),
    _stamp("a stamp that is empty", ""),
    _stamp("a stamp that is null", None),
    _stamp("a stamp that is true", True),
    _stamp("a stamp that is an object", {}),
    _stamp("a stamp that is a number among text", _HOURS[50]),
    _stamp("a stamp with an offset among others", etth1.stamps()[50] + "Z"),
    _stamp("a stamp of a year beyond 9999", "12017-10-22 02:00:00"),
    _stamp("a stamp of the hour before", etth1.stamps()[49], "timestamps_duplicate"),
    _stamp("a stamp of two hours before", etth1.stamps()[48], "timestamps_unsorted"),
    _stamp("the last stamp a year late", "2018-10-24 23:00:00", "timestamps_gap", 95),
    _times("no stamps but a list", [], "timestamps_invalid"),
    _times("an object of stamps", {"0": _HOURS[0]}, "timestamps_invalid"),
    _times("one stamp for all", etth1.stamps()[:1], "length_mismatch"),
    _times("a stamp too many", etth1.stamps(length=97), "length_mismatch"),
    _times("epoch milliseconds", [h * 1000 for h in _HOURS], "timestamps_invalid", f"{STAMPS}[0]"),
    _times("epochs with a point", [h + 0.0 for h in _HOURS], "timestamps_invalid", f"{STAMPS}[0]"),
    _times("epochs beyond 64 bits", [h * 10**20 for h in _HOURS], "timestamps_invalid", f"{STAMPS}[0]"),
    _times("epochs before the year 1", [h - 10**12 for h in _HOURS], "timestamps_invalid", f"{STAMPS}[0]"),
    _times("all at one moment", [_HOURS[0]] * 96, "timestamps_duplicate", f"{STAMPS}[1]"),
    _times("in reverse", _HOURS[::-1], "timestamps_unsorted", f"{STAMPS}[1]"),
    _times("every minute", [_HOURS[0] + 60 * i for i in range(96)], "frequency_mismatch", f"{STAMPS}[1]"),
    _times("every second hour", [_HOURS[0] + 7200 * i for i in range(96)], "frequency_mismatch", f"{STAMPS}[1]"),
    _times("every 59 minutes", [_HOURS[0] + 3540 * i for i in range(96)], "frequency_mismatch", f"{STAMPS}[1]"),
    # start and freq
    _case("no clock at all", without(_STARTED, "series.0.start"), "timestamps_invalid", STAMPS),
    _case("start and stamps", but(_GOOD, "series.0.start", _HOURS[0]), "invalid_request", "series[0].start"),
    _case("start that is a date in words", but(_STARTED, "series.0.start", "today"), "timestamps_invalid",
          "series[0].start[0]"),
    _case("start that is a float", but(_STARTED, "series.0.start", 1.5e9), "timestamps_invalid", "series[0].start[0]"),
    _case("start that is a list", but(_STARTED, "series.0.start", _HOURS), "timestamps_invalid", "series[0].start[0]"),
    _case("start far in the past", but(_STARTED, "series.0.start", -(10**15)), "timestamps_invalid",
          "series[0].start[0]"),
    _case("freq of a quarter hour", but(_STARTED, "series.0.freq", "15min"), "frequency_mismatch", "series[0].freq"),
    _case("freq of a day", but(_STARTED, "series.0.freq", "d"), "frequency_mismatch", "series[0].freq"),
    _case("freq in words", but(_STARTED, "series.0.freq", "hourly"), "frequency_mismatch", "series[0].freq"),
    _case("freq empty", but(_STARTED, "series.0.freq", ""), "frequency_mismatch", "series[0].freq"),
    _case("freq that is a number", but(_STARTED, "series.0.freq", 3600), "frequency_mismatch", "series[0].freq"),
)  # fmt: skip
