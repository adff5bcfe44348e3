"""`pressroom export detect`: press an image-text tower or an F-ViT detector into an artifact of the model store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.output import console, identity, print_json, progress_bar, stored_line
from pressroom.precision import PrecisionChoice

if TYPE_CHECKING:
    from export.detect import Pressed

EXAMPLE = """\b
Examples:
  pressroom export detect data/checkpoints/clipself_tiny/clipself_tiny_visual.safetensors --name clipself-tiny \\
    --config data/checkpoints/clipself_tiny/clip_tiny.json --size 192 \\
    --clip data/checkpoints/clipself_tiny/clip_tiny_before.safetensors
  pressroom export detect eva_vitb16_coco_clipself_proposals.pt --name clipself-b16 --config EVA02-CLIP-B-16"""

CheckpointFile = Annotated[Path, typer.Argument(exists=True, help="EVA-CLIP, open_clip, CLIPSelf or F-ViT checkpoint.")]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
Config = Annotated[str, typer.Option(help="Official sizes: a JSON file, or a name such as EVA02-CLIP-B-16.")]
Clip = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="The CLIP checkpoint it began with: text tower where CHECKPOINT has none, weights for whole images.",
    ),
]
Blend = Annotated[float | None, typer.Option(help="Share of CHECKPOINT's own weights in those for whole images, 0..1.")]
Embeddings = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Label embeddings: .pt or .safetensors by name, .npy.")
]
Classes = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Label names of .npy rows: JSON list, or one a line.")
]
Templates = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Prompts with {}. Default: the config's, or the paper's."),
]
Size = Annotated[int | None, typer.Option(help="Longest side of an image inside the network, pixels.")]
Precision = Annotated[PrecisionChoice, typer.Option(help="int8: towers dynamically quantised, certified on their own.")]
Licence = Annotated[str | None, typer.Option(help="Of these weights. Default: the official ones', non-commercial.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def detect(
    checkpoint: CheckpointFile,
    name: Name,
    config: Config,
    version: Version = None,
    clip: Clip = None,
    blend: Blend = None,
    embeddings: Embeddings = None,
    classes: Classes = None,
    templates: Templates = None,
    size: Size = None,
    precision: Precision = PrecisionChoice.fp32,
    licence: Licence = None,
    as_json: AsJson = False,
) -> None:
    """Press CLIP, CLIPSelf or F-ViT. Nothing is stored unless the parity certificate holds."""
    with progress_bar() as report:
        from export.detect import DetectJob, press

        job = DetectJob(
            checkpoint=checkpoint,
            config=config,
            name=name,
            version=version,
            clip=clip,
            blend=blend,
            embeddings=embeddings,
            classes=classes,
            templates=templates,
            size=size,
            precision=precision.value,
            licence=licence,
        )
        pressed = press(job, report)
    print_json(_as_json(pressed)) if as_json else _show(pressed)


def _show(pressed: Pressed) -> None:
    certificate, stored = pressed.certificate, pressed.stored
    lines = [
        stored_line(stored),
        f"parity certificate: {certificate['verdict']}, {len(certificate['cases'])} cases, "
        f"largest difference {certificate['max_abs']:.1e} (tolerance {certificate['tolerance']['atol']:.0e})",
        *(f"{metric.name} {metric.value} [{metric.origin}]" for metric in pressed.metrics),
        f"licence: {pressed.licence}",
        *(f"note: {note}" for note in pressed.notes),
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def _as_json(pressed: Pressed) -> dict[str, Any]:
    stored = pressed.stored
    return {
        **identity(stored),
        "certificate": pressed.certificate,
        "metrics": [metric.model_dump() for metric in pressed.metrics],
        "licence": pressed.licence,
        "notes": pressed.notes,
    }
