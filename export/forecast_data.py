"""Everything a forecaster's pipeline must know beside its weights, settled before the weights are touched.

    columns    --columns, else the training csv's, else the scaler file's
    frequency  --freq, else detected in the csv
    scaler     --scaler FILE | none, else fitted on the training rows of --split
    calendar   the marks the network was trained with: those of its official `freq`, whatever the data's own step

`--scaler none` is for networks that normalise every window themselves: their forecast then follows the raw units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from export.errors import DataError, HyperParameterError, OptionError
from export.hyperparameters import HyperParameters
from export.scaling import SPLITS, Split, fit_scaler, read_scaler, split_rows
from export.training_data import TrainingTable, parse_frequency, read_table
from models.forecasting.architecture import Architecture
from models.forecasting.frequency import Frequency
from models.forecasting.scaler import Scaler
from models.forecasting.spec import ForecastSpec

NO_SCALER = "none"
OFFICIAL_FREQ, OFFICIAL_EMBED = "h", "timeF"  # the official programs' defaults for the calendar


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """What the caller said about data; see the module's docstring."""

    data: Path | None = None
    split: str | None = None
    scaler: str | None = None
    freq: str | None = None
    columns: tuple[str, ...] | None = None
    marks: bool = True


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Data options turned into facts. table and split are None if no csv was given; notes go into the manifest."""

    table: TrainingTable | None
    split: Split | None
    scaler: Scaler | None
    columns: tuple[str, ...] | None
    frequency: Frequency
    notes: list[str] = field(default_factory=list)


def prepare(options: DataOptions) -> Prepared:
    """Read the csv and settle columns, frequency and scaler. Raises OptionError or DataError."""
    table = read_table(options.data, columns=options.columns, freq=options.freq) if options.data else None
    split = split_rows(options.split, len(table.values)) if table and options.split else None
    columns = options.columns or (table.columns if table else None)
    if options.scaler == NO_SCALER:
        scaler, notes = None, ["no scaler: every window is normalised by the network itself"]
    elif options.scaler is not None:
        scaler, columns = _given_scaler(Path(options.scaler), columns)
        notes = [f"scaler statistics from {Path(options.scaler).name}"]
    elif table and split:
        scaler, notes = _fitted(table, split)
    else:
        raise _no_scaler(options)
    frequency = (table.frequency if table else None) or (parse_frequency(options.freq) if options.freq else None)
    if frequency is None:
        raise OptionError("the sampling frequency is not known", "state it, e.g. --freq h, or give --data with dates")
    return Prepared(table=table, split=split, scaler=scaler, columns=columns, frequency=frequency, notes=notes)


def make_spec(
    prepared: Prepared, architecture: Architecture, hyper: HyperParameters, *, marks: bool = True
) -> ForecastSpec:
    """Join data facts and hyper-parameters. Raises DataError or HyperParameterError where they do not fit."""
    _check_scaler(prepared, architecture, hyper)
    _check_columns(prepared, architecture, hyper)
    reads_marks = architecture.takes_marks and architecture.reads_marks(hyper.config)
    calendar = _calendar(hyper) if reads_marks and marks else None
    if reads_marks and architecture.marks_ahead:
        _check_marks_ahead(architecture, hyper, calendar)
    return ForecastSpec(
        look_back=hyper.config.look_back,
        horizon=hyper.config.horizon,
        columns=prepared.columns,
        frequency=prepared.frequency,
        calendar=calendar,
        scaler=prepared.scaler,
        marks_ahead=reads_marks and architecture.marks_ahead,
        look_back_reason=architecture.look_back_reason(hyper.config),
    )


def _fitted(table: TrainingTable, split: Split) -> tuple[Scaler, list[str]]:
    scaler, notes = fit_scaler(table, split)
    start, end = split.train
    return scaler, [f"scaler fitted on rows {start}:{end} of {table.file} (sha256 {table.sha256})", *notes]


def _given_scaler(path: Path, columns: tuple[str, ...] | None) -> tuple[Scaler, tuple[str, ...]]:
    given = read_scaler(path)
    names = columns or given.columns
    if names is None:
        raise DataError(f"{path.name} does not name its columns", "add --columns a,b,c in the order of the numbers")
    if given.columns is not None and given.columns != names:
        raise DataError(
            f"{path.name} is for columns {', '.join(given.columns)}, expected {', '.join(names)}",
            "use the scaler that was fitted on these columns in this order",
        )
    if len(given.scaler.mean) != len(names):
        raise DataError(f"{path.name} has {len(given.scaler.mean)} means for {len(names)} columns")
    return given.scaler, names


def _no_scaler(options: DataOptions) -> OptionError:
    if options.data is not None:
        known = ", ".join(SPLITS)
        return OptionError("--data without --split: which rows was the network trained on?", f"{known}, or rows 0:8640")
    return OptionError(
        "the checkpoint holds no scaler and none was given",
        "give the training csv (--data FILE --split ett-hourly), numbers (--scaler FILE.json), or, for a network that "
        "normalises every window by itself, --scaler none",
    )


def _check_scaler(prepared: Prepared, architecture: Architecture, hyper: HyperParameters) -> None:
    reason = architecture.scaler_reason(hyper.config)
    if prepared.scaler is None and reason is not None:
        raise DataError(
            f"--scaler none: this {architecture.name} {reason} and needs the training data's scaler",
            "give --data FILE --split NAME, or --scaler FILE.json",
        )


def _check_marks_ahead(architecture: Architecture, hyper: HyperParameters, calendar: Frequency | None) -> None:
    """A network whose weights have a place for every mark must be fed exactly those."""
    if calendar is None:
        raise OptionError(f"--no-marks: {architecture.name} makes no forecast without the calendar", "leave it out")
    if (wanted := hyper.official["time_emb_dim"]) != len(calendar.marks):
        raise HyperParameterError(
            f"freq: {str(calendar)!r} has {len(calendar.marks)} calendar marks, the network was trained with {wanted}",
            "state the official `freq` of the training run, e.g. --set freq=h",
        )


def _check_columns(prepared: Prepared, architecture: Architecture, hyper: HyperParameters) -> None:
    if architecture.any_variates:
        return
    expected = hyper.config.variates
    if prepared.columns is None:
        raise DataError(
            f"{architecture.name} depends on the order of its {expected} columns, and no names were given",
            "name them with --columns a,b,c or give the training csv with --data",
        )
    if len(prepared.columns) != expected:
        raise DataError(
            f"the data has {len(prepared.columns)} columns, the network was trained with {expected} (enc_in)",
            "choose the columns it was trained with, in their order, with --columns",
        )


def _calendar(hyper: HyperParameters) -> Frequency:
    """Marks follow the official `freq` (default "h"), whatever the data's own step: ETTm runs use hourly marks.

    With an `embed` other than timeF the official data loader feeds whole numbers (month, day, ...) instead of marks.
    """
    if (embed := hyper.stated.get("embed", OFFICIAL_EMBED)) != OFFICIAL_EMBED:
        raise HyperParameterError(
            f"embed: the network was trained with {embed!r} calendar numbers, only {OFFICIAL_EMBED!r} marks are served",
            "serve without marks (--no-marks) and compare its errors, or train with the official default",
        )
    try:
        return Frequency.parse(str(hyper.stated.get("freq") or OFFICIAL_FREQ))
    except ValueError as error:
        raise HyperParameterError(f"freq: {error}") from None
