"""`pressroom ehr predict`: records in a MEDS parquet file, as of a date, asked of a running server through the client.

Subjects go out some at a time. If one of them is refused (dead by then, nothing known before), its neighbours are
asked alone, and the refusal is listed beside the answers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.call import address_of, refuse
from pressroom.output import print_json, print_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pressroom_client import Client, PatientPrediction, PressroomError, TaskPrediction, TimeToEventResult

_EXAMPLE = "Example: pressroom ehr predict records.parquet --at 2022-01-01 --task death --horizon 365 --horizon 1825"
_HELP = "When what may happen to patients."
_AT_ONCE = 16  # patients of one request
_SUBJECT = "subject_id"

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Events in MEDS layout, parquet.")]
At = Annotated[
    str, typer.Option(metavar="TIME", help="Predict as of this ISO 8601 date or time; no later event is read.")
]
Task = Annotated[
    list[str] | None, typer.Option(help="Adapter or code; may be repeated. Default: the model's adapters.")
]
Horizon = Annotated[list[float] | None, typer.Option(help="Days; may be repeated. Default: 365, 730, 1825.")]
Subject = Annotated[list[int] | None, typer.Option(help="subject_id; may be repeated. Default: all of the file.")]
Strict = Annotated[bool, typer.Option("--strict-same-day", help="Leave out events at midnight of the day itself.")]
Model = Annotated[str | None, typer.Option(help="name or name:version. Default: the only one served.")]
Url = Annotated[str | None, typer.Option(help="http://host:port or grpc://host:port. Default: this machine.")]
Grpc = Annotated[bool, typer.Option("--grpc", help="Speak gRPC.")]
ApiKey = Annotated[str | None, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def predict(
    file: File,
    at: At,
    task: Task = None,
    horizon: Horizon = None,
    subject: Subject = None,
    strict: Strict = False,
    model: Model = None,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Predict times to events from the records of a parquet file. Exit status 1 if a subject was refused."""
    from pressroom_client import Client, PressroomError, UsageError

    table = _read(file, subject)
    asked = {"tasks": task, "horizons_days": horizon, "strict_same_day": strict, "model": model}
    found = _Found([], {})
    try:
        with Client(address_of(url, grpc), api_key=api_key) as client:
            for part in _parts(table, _AT_ONCE):
                _ask(client, part, at, asked, found)
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    print_json(_as_json(found)) if as_json else _show(found)
    if found.refused:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Found:
    """Answers, and by subject why there is none."""

    results: list[TimeToEventResult]
    refused: dict[str, PressroomError]


def _ask(client: Client, part: pa.Table, at: str, asked: dict[str, Any], found: _Found) -> None:
    """Ask about some subjects at once; one by one if one of them is refused."""
    from pressroom_client import APIStatusError

    try:
        found.results.append(client.predict_time_to_event(part, at, **asked))
    except APIStatusError as error:
        if not (error.field or "").startswith("patients["):
            raise
        alone = list(_parts(part, 1))
        if len(alone) == 1:
            found.refused[str(part.column(_SUBJECT)[0])] = error
            return
        for one in alone:
            _ask(client, one, at, asked, found)


def register(app: typer.Typer) -> None:
    """Add the verb and its families."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
    group.command(epilog=_EXAMPLE)(predict)
    group.callback(help=_HELP)(_commands)
    app.add_typer(group, name="ehr", epilog=_EXAMPLE)


def _commands() -> None:
    """Keeps the command's name in the command line, also where there is one."""


def _read(file: Path, subjects: list[int] | None) -> pa.Table:
    """The events asked about; refused where the file is no parquet, or a subject is not in it."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError):
        raise typer.BadParameter(f"{file.name} is not a parquet file", param_hint="FILE") from None
    if _SUBJECT not in table.column_names:
        raise typer.BadParameter(f"{file.name} has no column {_SUBJECT}: it is not in MEDS layout", param_hint="FILE")
    known = pc.unique(table.column(_SUBJECT)).to_pylist()
    if missing := [one for one in subjects or () if one not in known]:
        raise typer.BadParameter(f"{missing[0]} is not in {file.name}", param_hint="--subject")
    return table.filter(pc.is_in(table.column(_SUBJECT), pa.array(subjects, pa.int64()))) if subjects else table


def _parts(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """So many subjects at a time, in ascending order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    subjects = sorted(pc.unique(table.column(_SUBJECT)).to_pylist())
    for start in range(0, len(subjects), size):
        chosen = pa.array(subjects[start : start + size], table.schema.field(_SUBJECT).type)
        yield table.filter(pc.is_in(table.column(_SUBJECT), chosen))


def _show(found: _Found) -> None:
    if found.results:
        last = found.results[-1]
        headings = [f"risk {days:g} d" for days in last.patients[0].tasks[0].horizons_days]
        rows = [_row(patient, task) for result in found.results for patient in result for task in patient.tasks]
        print_table(["subject", "task", *headings, "median", "events read", "later ones"], rows)
        print(f"{last.model}:{last.version}  {last.digest}")
    for subject, error in found.refused.items():
        print(f"no prediction for subject {subject}: {error.message} ({error.code})", file=sys.stderr)


def _row(patient: PatientPrediction, task: TaskPrediction) -> list[str]:
    median = "not reached" if task.median_days is None else f"{task.median_days:.0f} d"
    counts = patient.events
    risks = (f"{risk:.3f}" for risk in task.risk)
    return [str(patient.id), task.task, *risks, median, f"{counts.used}/{counts.received}", str(counts.dropped_future)]


def _as_json(found: _Found) -> dict[str, Any]:
    """One document for all requests, with the field names of the native route."""
    head = {}
    if found.results:
        last = found.results[-1]
        head = {name: getattr(last, name) for name in ("model", "version", "digest", "backbone", "dictionary")}
    return {
        **head,
        "request_ids": [result.request_id for result in found.results],
        "patients": [_patient_json(patient) for result in found.results for patient in result],
        "refused": [
            {"id": subject, "code": error.code, "message": error.message} for subject, error in found.refused.items()
        ],
    }


def _patient_json(patient: PatientPrediction) -> dict[str, Any]:
    return {
        "id": patient.id,
        "prediction_time": patient.prediction_time,
        "age_days": patient.age_days,
        "last_event_days": patient.last_event_days,
        "events": vars(patient.events),
        "truncation": patient.truncation,
        "tasks": [_task_json(task) for task in patient.tasks],
    }


def _task_json(task: TaskPrediction) -> dict[str, Any]:
    edges = [float(edge) for edge in task.hazard.edges_days[:-1]]
    return {
        "task": task.task,
        "source": task.source,
        "version": task.version,
        "digest": task.digest,
        "outcome": task.outcome,
        "horizons_days": task.horizons_days.tolist(),
        "survival": task.survival.tolist(),
        "risk": task.risk.tolist(),
        "hazard": {"edges_days": [*edges, None], "per_day": task.hazard.per_day.tolist(), "unit": "1/day"},
        "median_days": task.median_days,
        "calibration": task.calibration,
    }
