"""Accuracy through the served endpoint: ETTh1's whole test split in raw units, errors beside the papers'.

    python -m benchmarks.accuracy [--url http://127.0.0.1:3000] [--write-docs]

Every window is sent to the native forecast route and, as raw tensors, to the Open Inference Protocol: to the bundled
forecasters, to LIFT around either of them, and to ARM. Exit status: 0 all errors are the training program's within
0.0005, 1 some are not, 2 misuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from pressroom_client import Client, History, Tensor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.command import run
from benchmarks.errors_table import Errors, Expected, Values, errors
from benchmarks.server import gateway, use_own_store
from benchmarks.windows import Windows, split_windows

if TYPE_CHECKING:
    from pressroom.bundled import Bundled

BATCH = 64  # windows in one request
NATIVE, BINARY = "native JSON", "OIP binary"
Ask = Callable[[Client, str, Windows, slice], Values]


@dataclass(frozen=True)
class Measured:
    """One model on one route, and the largest difference of its forecasts from the native route's, in raw units."""

    model: str
    route: str
    found: Errors
    expected: Expected
    from_native: float
    bundled: Bundled

    @property
    def holds(self) -> bool:
        return self.expected.met_by(self.found)


def main(
    url: Annotated[str | None, typer.Option(help="Measure a running server instead of starting one.")] = None,
    write_docs: Annotated[bool, typer.Option(help="Write docs/accuracy.md.")] = False,
) -> None:
    """Measure the served forecasters on the papers' test data."""
    use_own_store()
    with ExitStack() as stack:
        bar = stack.enter_context(_progress())
        task = bar.add_task("press and start", total=None)
        if url is None:
            from pressroom.bundled import press_bundled

            press_bundled(plugins=True)
            url = stack.enter_context(gateway()).url
        client = stack.enter_context(Client(url))
        measured = measure(client, lambda what, total: bar.update(task, description=what, total=total, advance=1))
    windows = split_windows()
    _print(measured, windows)
    if write_docs:
        _write_page(measured, windows)
    if not all(one.holds for one in measured):
        raise typer.Exit(1)


def measure(client: Client, tick: Callable[[str, int], None]) -> list[Measured]:
    """Everything bundled on both routes. tick: called after every request with what it was and how many there are."""
    from pressroom.bundled import BUNDLED, PLUGINS

    asked = (*BUNDLED, *PLUGINS)
    parts = -(-len(split_windows()) // BATCH)
    found = []
    for one in asked:
        found += _measure_one(client, one, lambda what: tick(what, parts * len(asked) * len(ROUTES)))
    return found


def _measure_one(client: Client, one: Bundled, tick: Callable[[str], None]) -> list[Measured]:
    """One model on both routes, on windows as long as it reads."""
    from export.scaling import read_scaler

    windows = split_windows(look_back=client.metadata(one.name).inputs[0].shape[1])
    measured = []
    native: Values | None = None
    for route, ask in ROUTES.items():
        forecast = np.empty_like(windows.truth)
        for start in range(0, len(windows), BATCH):
            part = slice(start, min(start + BATCH, len(windows)))
            forecast[part] = ask(client, one.name, windows, part)
            tick(f"{one.name}, {route}")
        native = forecast if native is None else native
        found = errors(forecast, windows.truth, read_scaler(one.config).scaler, windows.columns)
        apart = float(np.abs(forecast - native).max())
        measured.append(Measured(one.name, route, found, _expected(one), apart, one))
    return measured


def _ask_native(client: Client, model: str, windows: Windows, part: slice) -> Values:
    stamps = windows.stamps[part].astype("M8[s]")
    series = [
        History(values=dict(zip(windows.columns, history.T, strict=True)), timestamps=clock)
        for history, clock in zip(windows.history[part], stamps, strict=True)
    ]
    answer = client.forecast(series, model=model)
    return np.stack([np.stack([one.values[name] for name in windows.columns], axis=1) for one in answer])


def _ask_binary(client: Client, model: str, windows: Windows, part: slice) -> Values:
    tensors: dict[str, np.ndarray | Tensor] = {
        "history": windows.history[part].astype(np.float32),
        "timestamps": windows.stamps[part],
    }
    return client.infer(model, tensors).outputs["forecast"]


ROUTES: dict[str, Ask] = {NATIVE: _ask_native, BINARY: _ask_binary}


def _expected(one: Bundled) -> Expected:
    recorded = json.loads(one.config.read_bytes())
    test, paper = recorded["metrics_test"], recorded.get("paper_test")
    return Expected(test["mse"], test["mae"], paper and (paper["mse"], paper["mae"]))


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


HEADINGS = ("model, route", "MSE", "MAE", "training program", "paper", "from native route", "holds")
PLUGIN_HEADINGS = (
    "plug-in, native route",
    "MSE",
    "MAE",
    "around",
    "its MSE / MAE",
    "difference in MSE",
    "validation loss",
)


def _rows(measured: list[Measured]) -> list[list[str]]:
    return [
        [
            f"{one.model}, {one.route}",
            f"{one.found.mse:.4f}",
            f"{one.found.mae:.4f}",
            f"{one.expected.mse:.4f} / {one.expected.mae:.4f}",
            f"{one.expected.paper[0]:.3f} / {one.expected.paper[1]:.3f}" if one.expected.paper else "-",
            f"{one.from_native:.1e}",
            "yes" if one.holds else "NO",
        ]
        for one in measured
    ]


def _plugin_rows(measured: list[Measured]) -> list[list[str]]:
    """Each plug-in beside what it is put around."""
    from pressroom.bundled import PLUGINS

    native = {one.model: one for one in measured if one.route == NATIVE}
    rows = []
    for one in (found for found in native.values() if found.bundled in PLUGINS):
        inner = native.get(one.bundled.backbone or "")
        beside = ["its own predictor", "-", "-"]
        if inner is not None:
            change = 100 * (one.found.mse / inner.found.mse - 1)
            beside = [inner.model, f"{inner.found.mse:.4f} / {inner.found.mae:.4f}", f"{change:+.2f} %"]
        rows.append([one.model, f"{one.found.mse:.4f}", f"{one.found.mae:.4f}", *beside, _validation(one.bundled)])
    return rows


def _validation(one: Bundled) -> str:
    """The recipe's loss on the validation rows: of the backbone, and of what was kept."""
    recorded = json.loads(one.config.read_bytes())
    kept = min(epoch["validation"] for epoch in recorded["training"]["history"])
    before = recorded.get("validation_of_backbone")
    return f"{kept:.4f}" if before is None else f"{before['loss']:.4f} -> {min(kept, before['loss']):.4f}"


def _column_rows(measured: list[Measured]) -> list[list[str]]:
    return [
        [one.model, *(f"{mse:.4f} / {mae:.4f}" for mse, mae in one.found.columns.values())]
        for one in measured
        if one.route == NATIVE
    ]


def _print(measured: list[Measured], windows: Windows) -> None:
    from benchmarks.machine import describe
    from pressroom.output import print_table

    for key, value in describe().items():
        print(f"{key}: {value}")
    print(f"\nETTh1 test split, {len(windows):,} windows, errors on scaled values\n")
    print_table(HEADINGS, _rows(measured))
    print()
    print_table(PLUGIN_HEADINGS, _plugin_rows(measured))
    print()
    print_table(("MSE / MAE", *windows.columns), _column_rows(measured))


def _write_page(measured: list[Measured], windows: Windows) -> None:
    from benchmarks.report import table, write_page

    head = f"""# Accuracy through the served endpoint

All {len(windows):,} windows of ETTh1's test split (96 hours of forecast, and as much history as a model reads: 96
hours, 192 for LIFT) were sent in raw units to a running gateway by the Python client, {BATCH} windows a request: to
`POST /v1/forecast`, and as raw tensors to `POST /v2/models/NAME/infer`. Errors are on scaled values, as the papers
report them: differences in units of the training rows' standard deviation, averaged over windows, steps and columns.
The training program's errors were measured with the same checkpoint (the papers' programs for iTransformer and CARD,
our recipes for LIFT and ARM); ours must be equal to them within 0.0005. "From native route" is the largest difference
of any forecast value between the two routes, in raw units: binary requests carry float32."""
    plugins = f"""## Plug-ins

{table(PLUGIN_HEADINGS, _plugin_rows(measured))}

Trained by [our recipes](plugins.md#training). A positive difference is a worse forecast than the backbone's alone.
Epochs and learning rates were chosen by the loss on the validation rows (last column: of the backbone, and of what was
kept), never by the test rows. ARM is smaller than the paper's, which reads 720 hours."""
    columns = f"""## Per column (MSE / MAE, native route)

{table(("model", *windows.columns), _column_rows(measured))}"""
    write_page(
        "accuracy.md",
        "python -m benchmarks.accuracy --write-docs",
        [head, table(HEADINGS, _rows(measured)), plugins, columns],
    )


if __name__ == "__main__":
    run(main, "python -m benchmarks.accuracy --url http://127.0.0.1:3000")
