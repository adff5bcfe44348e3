"""`pressroom export onnx`: press any ONNX graph, to be served as tensors."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pressroom.output import console, identity, print_json, progress_bar, stored_line

if TYPE_CHECKING:
    from export.artifact import TensorSpec

EXAMPLE = """\b
Example:
  pressroom export onnx scorer.onnx --name scorer"""


class Reference(StrEnum):
    """What the served session is compared with."""

    evaluator = "evaluator"
    runtime = "runtime"


File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A graph, whole in one .onnx file.")]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
Free = Annotated[
    bool, typer.Option("--free-batch", help="The first axis of all tensors is the batch, whatever the file says.")
]
Rows = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, metavar="FILE.npz", help="Rows of every input to try it on. Default: random."
    ),
]
Against = Annotated[
    Reference,
    typer.Option(help="Compare with onnx's own evaluator (where it runs the graph), or with a plain onnxruntime."),
]
Licence = Annotated[str | None, typer.Option(help="Of the graph.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def onnx(
    file: File,
    name: Name,
    version: Version = None,
    free_batch: Free = False,
    example: Rows = None,
    reference: Against = Reference.evaluator,
    licence: Licence = None,
    as_json: AsJson = False,
) -> None:
    """Press any ONNX graph whose tensors have the batch first. Nothing is stored unless the certificate holds."""
    with progress_bar() as report:
        from export.onnx_press import LICENCE, OnnxJob, press

        job = OnnxJob(
            file=file,
            name=name,
            version=version,
            free_batch=free_batch,
            example=example,
            reference=reference.value,
            licence=licence or LICENCE,
        )
        pressed = press(job, report)
    certificate = pressed.certificate
    if as_json:
        print_json(
            {**identity(pressed.stored), "certificate": certificate, "signature": pressed.signature.model_dump()}
        )
        return
    lines = [
        stored_line(pressed.stored),
        f"parity certificate: {certificate['verdict']}, {len(certificate['cases'])} cases, "
        f"largest difference {certificate['max_abs']:.1e} (tolerance {certificate['tolerance']['atol']:.0e}), "
        f"against {certificate['stages'][0]}",
        *(f"in   {_line(spec)}" for spec in pressed.signature.inputs),
        *(f"out  {_line(spec)}" for spec in pressed.signature.outputs),
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def _line(spec: TensorSpec) -> str:
    return f"{spec.name}  {spec.dtype} [{', '.join(map(str, spec.shape))}]"
