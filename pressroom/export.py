"""`pressroom export`: press an official checkpoint into an artifact of the model store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.export_detect import EXAMPLE as IMAGE_EXAMPLE
from pressroom.export_detect import detect
from pressroom.export_ehr import ADAPTER_EXAMPLE, ehr, ehr_adapter
from pressroom.export_ehr import EXAMPLE as EHR_EXAMPLE
from pressroom.export_llm import EXAMPLE as LLM_EXAMPLE
from pressroom.export_llm import llm
from pressroom.export_onnx import EXAMPLE as ONNX_EXAMPLE
from pressroom.export_onnx import onnx
from pressroom.export_text_detect import EXAMPLE as DETECT_EXAMPLE
from pressroom.export_text_detect import text_detect
from pressroom.export_watermark import EXAMPLE as WATERMARK_EXAMPLE
from pressroom.export_watermark import watermark
from pressroom.output import console, identity, print_json, progress_bar, stored_line
from pressroom.precision import PrecisionChoice

if TYPE_CHECKING:
    from export.forecast import Pressed

_FORECAST = """\b
Example:
  pressroom export forecast itransformer data/checkpoints/itransformer_etth1_96_96.safetensors \\
    --name itransformer-etth1 --config data/checkpoints/itransformer_etth1_96_96.json \\
    --data data/ett/ETTh1.csv --split ett-hourly --evaluate"""
_BUNDLED = "Example: pressroom export bundled"


class RuntimeChoice(StrEnum):
    """What runs the weights."""

    onnx = "onnx"
    torch = "torch"


Architecture = Annotated[str, typer.Argument(help="The network: itransformer, card, lift, arm, patchtst or dlinear.")]
CheckpointFile = Annotated[Path, typer.Argument(exists=True, help="Official checkpoint.pth, or .safetensors.")]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
Config = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="JSON with official hyper-parameters.")]
Settings = Annotated[
    str | None,
    typer.Option(help="Official settings directory name. Default: the one the checkpoint lies in, if it is one."),
]
Flags = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="One hyper-parameter; wins over --config and --settings."),
]
Data = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Training csv: columns, frequency, scaler, real test windows."),
]
Split = Annotated[
    str | None, typer.Option(help="Training rows of the csv: ett-hourly, ett-minute, custom (70/10/20) or FIRST:END.")
]
Scaler = Annotated[
    str | None,
    typer.Option(metavar="FILE|none", help="JSON with mean and std; none: the network normalises each window."),
]
Freq = Annotated[str | None, typer.Option(help="Sampling frequency, e.g. h or 15min. Default: detected.")]
Columns = Annotated[
    str | None, typer.Option(help="Column names in the network's order, comma separated. Default: the csv's.")
]
Marks = Annotated[bool, typer.Option(help="Feed calendar marks to a network that can read them.")]
Runs = Annotated[RuntimeChoice, typer.Option(help="What runs the weights.")]
Precision = Annotated[
    PrecisionChoice, typer.Option(help="int8: dynamically quantised, with its own certificate and accuracy.")
]
Backbone = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:VERSION]", help="lift: the stored artifact it is put around; gives its hyper-parameters."
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|none",
        help="Csv that calibrates intervals. Default: the training csv's rows before the test rows.",
    ),
]
Evaluate = Annotated[bool, typer.Option(help="Measure MSE and MAE on the split's test rows.")]
Text = Annotated[
    bool, typer.Option("--llm", help="The embedded language model too, dense and pruned: minutes the first time.")
]
Plugins = Annotated[bool, typer.Option("--plugins", help="LIFT around both forecasters, and ARM, too.")]
Images = Annotated[bool, typer.Option("--detect", help="The small CLIP too, before and after CLIPSelf.")]
Records = Annotated[bool, typer.Option("--ehr", help="The small MOTOR with its task adapters, too.")]
Scheme = Annotated[
    bool,
    typer.Option("--watermark", help="A watermarking scheme for the embedded language model, which comes with it."),
]
Everything = Annotated[bool, typer.Option("--all", help="All of these.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def forecast(
    architecture: Architecture,
    checkpoint: CheckpointFile,
    name: Name,
    version: Version = None,
    config: Config = None,
    settings: Settings = None,
    flags: Flags = None,
    data: Data = None,
    split: Split = None,
    scaler: Scaler = None,
    freq: Freq = None,
    columns: Columns = None,
    marks: Marks = True,
    backbone: Backbone = None,
    runtime: Runs = RuntimeChoice.onnx,
    precision: Precision = PrecisionChoice.fp32,
    evaluate: Evaluate = False,
    calibration: Calibration = None,
    as_json: AsJson = False,
) -> None:
    """Press a forecaster. Nothing is stored unless the parity certificate holds."""
    with progress_bar() as report:
        from export.forecast import ForecastJob, press
        from export.forecast_data import DataOptions
        from export.hyperparameters import Stated

        named = tuple(part.strip() for part in columns.split(",")) if columns else None
        job = ForecastJob(
            architecture=architecture,
            checkpoint=checkpoint,
            name=name,
            version=version,
            backbone=backbone,
            stated=Stated(flags=flags or (), config=config, settings=settings),
            data=DataOptions(data=data, split=split, scaler=scaler, freq=freq, columns=named, marks=marks),
            runtime=runtime.value,
            precision=precision.value,
            evaluate=evaluate,
            calibration=calibration,
        )
        pressed = press(job, report)
    _show(pressed, as_json)


def bundled(
    text: Text = False,
    images: Images = False,
    records: Records = False,
    scheme: Scheme = False,
    plugins: Plugins = False,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Press the checkpoints that come with the repository, two forecasters and what is named besides.

    What is up to date already is left alone.
    """
    with progress_bar() as report:
        from pressroom.bundled import press_bundled
        from pressroom.bundled_detect import press_clips
        from pressroom.bundled_ehr import press_records
        from pressroom.bundled_llm import press_twins
        from pressroom.bundled_watermark import press_scheme

        found = press_bundled(report, plugins=plugins or everything)
        found += press_clips(report) if images or everything else []
        found += press_records(report) if records or everything else []
        twins = press_twins(report) if text or scheme or everything else []
        found += twins
        found += [press_scheme(twins[0], report)] if scheme or everything else []
    if as_json:
        print_json([{"tag": s.tag, "digest": s.digest, "unchanged": s.unchanged} for s in found])
        return
    for stored in found:
        console().print(stored_line(stored), markup=False)


def register(app: typer.Typer) -> None:
    """Add the verb and its families."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Press an official checkpoint into a verified artifact."
    )
    group.command(epilog=_FORECAST)(forecast)
    group.command(epilog=LLM_EXAMPLE)(llm)
    group.command("text-detect", epilog=DETECT_EXAMPLE)(text_detect)
    group.command(epilog=WATERMARK_EXAMPLE)(watermark)
    group.command(epilog=IMAGE_EXAMPLE)(detect)
    group.command(epilog=EHR_EXAMPLE)(ehr)
    group.command(epilog=ONNX_EXAMPLE)(onnx)
    group.command("ehr-adapter", epilog=ADAPTER_EXAMPLE)(ehr_adapter)
    group.command(epilog=_BUNDLED)(bundled)
    app.add_typer(group, name="export", epilog=_FORECAST)


def _show(pressed: Pressed, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(pressed))
        return
    certificate, stored = pressed.certificate, pressed.stored
    lines = [
        stored_line(stored),
        f"parity certificate: {certificate['verdict']}, {len(certificate['cases'])} cases, "
        f"largest difference {certificate['max_abs']:.1e} (tolerance {certificate['tolerance']['atol']:.0e})",
        *(f"{m.name} {m.value} on {m.data}, {m.split} [{m.origin}]" for m in pressed.metrics),
        *(f"note: {note}" for note in pressed.notes),
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def _as_json(pressed: Pressed) -> dict[str, Any]:
    stored, certificate = pressed.stored, pressed.certificate
    return {
        **identity(stored),
        "certificate": certificate,
        "metrics": [metric.model_dump() for metric in pressed.metrics],
        "hyper_parameter_origins": pressed.origins,
        "notes": pressed.notes,
    }
