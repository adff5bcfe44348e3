"""Bad forecast requests: what is wrong with each, and the refusal it must get.

A case changes one good request (one window of iTransformer, `series[0]`) in one way. The same cases go over the native
route and inside the protocol's BYTES input, over REST and gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import etth1

Request = dict[str, Any]
VALUES, STAMPS = "series[0].values", "series[0].timestamps"
_NO_ROWS: dict[str, list[float]] = {name: [] for name in etth1.COLUMNS}


@dataclass(frozen=True)
class Case:
    """name; code and field of the refusal; the change, in place. Every status here is 422 / INVALID_ARGUMENT."""

    name: str
    code: str
    field: str | None
    change: Callable[[Request], None]

    def request(self, model: str = etth1.ITRANSFORMER) -> Request:
        request = etth1.request(model=model)
        self.change(request)
        return request


def _series(**fields: Any) -> Callable[[Request], None]:
    """Replace the request's series by another window."""
    return lambda request: request.update(series=[etth1.series(**fields)])


def _column(name: str, edit: Callable[[list[Any]], Any]) -> Callable[[Request], None]:
    """Replace one column by `edit(column)`."""

    def change(request: Request) -> None:
        columns = request["series"][0]["values"]
        columns[name] = edit(columns[name])

    return change


def _value(index: int, value: Any) -> Callable[[Request], None]:
    return _column("HUFL", lambda column: [*column[:index], value, *column[index + 1 :]])


def _stamps(edit: Callable[[list[Any]], Any]) -> Callable[[Request], None]:
    return lambda request: request["series"][0].update(timestamps=edit(etth1.stamps()))


def _stamp(index: int, value: Any) -> Callable[[Request], None]:
    return _stamps(lambda stamps: [*stamps[:index], value, *stamps[index + 1 :]])


def _epochs(edit: Callable[[list[int]], list[Any]]) -> Callable[[Request], None]:
    return lambda request: request["series"][0].update(timestamps=edit(etth1.epochs()))


def _put(**fields: Any) -> Callable[[Request], None]:
    return lambda request: request.update(fields)


def _put_in_series(**fields: Any) -> Callable[[Request], None]:
    return lambda request: request["series"][0].update(fields)


def _columns(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Request], None]:
    return lambda request: request["series"][0].update(values=edit(request["series"][0]["values"]))


def _gap(request: Request) -> None:
    """97 hours without the thirty-first."""
    longer = etth1.series(length=97)
    del longer["timestamps"][30]
    for column in longer["values"].values():
        del column[30]
    request["series"] = [longer]


def _start(**fields: Any) -> Callable[[Request], None]:
    return lambda request: request.update(series=[etth1.series(timestamps=None, **fields)])


def _half_hours(stamps: list[str]) -> list[str]:
    return [f"2018-01-0{1 + i // 48} {i // 2 % 24:02}:{i % 2 * 30:02}:00" for i in range(len(stamps))]


CASES = (
    # history and columns
    Case("one row too few", "history_too_short", VALUES, _series(length=95)),
    Case("no rows", "history_too_short", VALUES, _start(start=etth1.stamps()[0], freq="h", values=_NO_ROWS)),
    Case("a column missing", "columns_missing", VALUES, _columns(lambda c: {n: v for n, v in c.items() if n != "OT"})),
    Case("no columns", "columns_missing", VALUES, _columns(lambda c: {})),
    Case("a column too many", "columns_unexpected", VALUES, _columns(lambda c: {**c, "EXTRA": c["OT"]})),
    Case("columns reversed", "columns_reordered", VALUES, _columns(lambda c: dict(reversed(c.items())))),
    Case("a column shorter", "length_mismatch", f"{VALUES}.OT", _column("OT", lambda c: c[:-1])),
    Case("a stamp too few", "length_mismatch", STAMPS, _stamps(lambda s: s[:-1])),
    # values
    Case("null", "value_not_finite", f"{VALUES}.HUFL[17]", _value(17, None)),
    Case("text", "value_not_numeric", f"{VALUES}.HUFL[3]", _value(3, "5.8")),
    Case("true", "value_not_numeric", f"{VALUES}.HUFL[95]", _value(95, True)),
    Case("a list", "value_not_numeric", f"{VALUES}.HUFL[0]", _value(0, [1.0])),
    Case("an object", "value_not_numeric", f"{VALUES}.HUFL[1]", _value(1, {})),
    Case("too large", "value_out_of_range", "series[0].values", _value(40, 1e300)),
    Case("a column of text", "invalid_request", f"{VALUES}.OT", _column("OT", lambda c: "1 2 3")),
    Case("a column that is null", "invalid_request", f"{VALUES}.OT", _column("OT", lambda c: None)),
    # timestamps
    Case("stamps swapped", "timestamps_unsorted", f"{STAMPS}[11]", _stamps(lambda s: [*s[:10], s[11], s[10], *s[12:]])),
    Case("newest first", "timestamps_unsorted", f"{STAMPS}[1]", _stamps(lambda s: s[::-1])),
    Case("a stamp repeated", "timestamps_duplicate", f"{STAMPS}[20]", _stamps(lambda s: [*s[:20], s[19], *s[20:-1]])),
    Case("an hour missing", "timestamps_gap", f"{STAMPS}[30]", _gap),
    Case("the last hour late", "timestamps_gap", f"{STAMPS}[95]", _stamp(95, etth1.stamps(length=98)[97])),
    Case("half-hourly", "frequency_mismatch", f"{STAMPS}[1]", _stamps(_half_hours)),
    Case("daily", "frequency_mismatch", f"{STAMPS}[1]", _epochs(lambda e: [e[0] + i * 86400 for i in range(96)])),
    Case("not a time", "timestamps_invalid", f"{STAMPS}[7]", _stamp(7, "yesterday")),
    Case("not a date", "timestamps_invalid", f"{STAMPS}[7]", _stamp(7, "2018-02-30 00:00:00")),
    Case("one with an offset", "timestamps_invalid", f"{STAMPS}[5]", _stamp(5, etth1.stamps()[5] + "+00:00")),
    Case("one number among text", "timestamps_invalid", f"{STAMPS}[9]", _stamp(9, etth1.epochs()[9])),
    Case("a null stamp", "timestamps_invalid", f"{STAMPS}[2]", _stamp(2, None)),
    Case("fractions of a second", "timestamps_invalid", f"{STAMPS}[4]", _stamp(4, etth1.stamps()[4] + ".5")),
    Case("epoch milliseconds", "timestamps_invalid", f"{STAMPS}[0]", _epochs(lambda e: [s * 1000 for s in e])),
    Case("epoch floats", "timestamps_invalid", f"{STAMPS}[0]", _epochs(lambda e: [float(s) for s in e])),
    Case("no stamps in the list", "timestamps_invalid", STAMPS, _stamps(lambda s: [])),
    Case("stamps that are text", "timestamps_invalid", STAMPS, _stamps(lambda s: s[0])),
    Case("no stamps at all", "timestamps_invalid", STAMPS, _start()),
    Case("stamps and start", "invalid_request", "series[0].start", _put_in_series(start=etth1.stamps()[0])),
    Case("another freq", "frequency_mismatch", "series[0].freq", _start(start=etth1.stamps()[0], freq="15min")),
    Case("an unknown freq", "frequency_mismatch", "series[0].freq", _start(start=etth1.stamps()[0], freq="fortnight")),
    Case("freq that is a number", "frequency_mismatch", "series[0].freq", _start(start=etth1.stamps()[0], freq=3600)),
    Case("an unreadable start", "timestamps_invalid", "series[0].start[0]", _start(start="noon", freq="h")),
    # horizon
    Case("a step too many", "horizon_too_long", "horizon", _put(horizon=97)),
    Case("no steps", "invalid_request", "horizon", _put(horizon=0)),
    Case("negative steps", "invalid_request", "horizon", _put(horizon=-1)),
    Case("half a step", "invalid_request", "horizon", _put(horizon=1.5)),
    Case("steps in text", "invalid_request", "horizon", _put(horizon="12")),
    Case("true steps", "invalid_request", "horizon", _put(horizon=True)),
    # the request itself
    Case("an empty list", "empty_batch", "series", _put(series=[])),
    Case("no series", "invalid_request", "series", lambda request: request.pop("series")),
    Case("series that is text", "invalid_request", "series", _put(series="all")),
    Case("a series that is a list", "invalid_request", "series[1]", lambda r: r["series"].append([1, 2])),
    Case("an unknown field", "invalid_request", "temperature", _put(temperature=0.7)),
    Case("an unknown series field", "invalid_request", "series[0].colour", _put_in_series(colour="red")),
    Case("an id that is a number", "invalid_request", "series[0].id", _put_in_series(id=7)),
    Case("values in a list", "invalid_request", VALUES, _put_in_series(values=[1.0, 2.0])),
    Case("no values", "invalid_request", VALUES, lambda request: request["series"][0].pop("values")),
    Case("the second series bad", "columns_missing", "series[1].values", lambda r: r["series"].append({"values": {}})),
)  # fmt: skip
