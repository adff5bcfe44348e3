"""`pressroom image`: what is in a picture, in your words, asked of a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pressroom.call import address_of
from pressroom.image_answers import Output, ask, common, read_boxes, read_mask

_HELP = "What is in a picture, in your words."
_PHOTO = "data/photographs/chelsea.jpg"
_REGIONS = f'Example: pressroom image regions {_PHOTO} --box 90,10,330,290 --labels "cat, dog" --plot out.png'
_DETECT = f'Example: pressroom image detect {_PHOTO} --labels "cat, dog" --proposals grid --plot out.png'
_SEGMENT = f'Example: pressroom image segment {_PHOTO} --labels "cat, wall" --plot out.png'
_CLASSIFY = f'Example: pressroom image classify {_PHOTO} --labels "cat, dog"'

Picture = Annotated[Path, typer.Argument(metavar="IMAGE", exists=True, dir_okay=False, help="JPEG, PNG or WebP file.")]
Labels = Annotated[
    list[str] | None,
    typer.Option(help="What to look for, comma separated; may be given again. Default: the model's vocabulary."),
]
Templates = Annotated[
    list[str] | None, typer.Option("--template", help="A prompt with {} for the label; may be given again.")
]
Model = Annotated[str | None, typer.Option(help="name or name:version. Default: the only one served.")]
Size = Annotated[int | None, typer.Option(min=1, help="Longest side inside the network, px. Default: the model's.")]
Url = Annotated[str | None, typer.Option(help="http://host:port or grpc://host:port. Default: this machine.")]
Grpc = Annotated[bool, typer.Option("--grpc", help="Speak gRPC.")]
ApiKey = Annotated[str | None, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the answer onto the picture and write it to this file.")]
Coco = Annotated[bool, typer.Option("--coco", help="Print COCO result entries as JSON, image_id the file's stem.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
TopK = Annotated[int, typer.Option(min=1, help="Likeliest labels named.")]
Boxes = Annotated[list[str] | None, typer.Option("--box", metavar="X0,Y0,X1,Y1", help="In pixels; may be given again.")]
BoxFile = Annotated[
    Path | None, typer.Option("--boxes", exists=True, dir_okay=False, help="JSON: a list of [x0, y0, x1, y1].")
]
Masks = Annotated[
    list[Path] | None,
    typer.Option("--mask", exists=True, dir_okay=False, help="PNG of the picture's size, not 0 inside; may be again."),
]
Threshold = Annotated[float | None, typer.Option(min=0, max=1, help="Lowest score. Default: the model's.")]
Most = Annotated[int | None, typer.Option("--max", min=1, help="Most detections. Default: the model's.")]
Agnostic = Annotated[bool, typer.Option(help="Boxes of different labels suppress each other, too.")]
Proposals = Annotated[str | None, typer.Option(help="model, or grid: windows, for models that are no detector.")]
Background = Annotated[float | None, typer.Option(min=0, max=1, help="Pixels that score less are background.")]
MapFile = Annotated[Path | None, typer.Option("--out", help="Write the label map to this PNG file.")]
Fit = Annotated[str | None, typer.Option(help="pad: the whole picture; centre: its centre square. Default: pad.")]


def regions(
    picture: Picture,
    box: Boxes = None,
    boxes: BoxFile = None,
    mask: Masks = None,
    labels: Labels = None,
    template: Templates = None,
    model: Model = None,
    size: Size = None,
    top_k: TopK = 3,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    plot: Plot = None,
    coco: Coco = False,
    as_json: AsJson = False,
) -> None:
    """Say what is in boxes or masks."""
    own: dict[str, Any] = {"boxes": read_boxes(box or [], boxes), "masks": [read_mask(path) for path in mask or []]}
    options = {**common(labels, template, model, size), **{name: value for name, value in own.items() if value}}
    output = Output(file=picture, plot=plot, coco=coco, as_json=as_json)
    ask(lambda client: client.regions(picture, top_k=top_k, **options), address_of(url, grpc), api_key, output)


def detect(
    picture: Picture,
    labels: Labels = None,
    template: Templates = None,
    model: Model = None,
    size: Size = None,
    threshold: Threshold = None,
    most: Most = None,
    class_agnostic: Agnostic = False,
    proposals: Proposals = None,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    plot: Plot = None,
    coco: Coco = False,
    as_json: AsJson = False,
) -> None:
    """Find things: boxes with labels and scores."""
    own = {"threshold": threshold, "max_detections": most, "proposals": proposals}
    options = {**common(labels, template, model, size), **own, "class_agnostic": class_agnostic}
    output = Output(file=picture, plot=plot, coco=coco, as_json=as_json)
    ask(lambda client: client.detect(picture, **options), address_of(url, grpc), api_key, output)


def segment(
    picture: Picture,
    labels: Labels = None,
    template: Templates = None,
    model: Model = None,
    size: Size = None,
    background_threshold: Background = None,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    plot: Plot = None,
    out: MapFile = None,
    coco: Coco = False,
    as_json: AsJson = False,
) -> None:
    """Give every pixel a label."""
    wanted = "rle" if as_json else "png"
    own = {"background_threshold": background_threshold, "output": wanted}
    options = {**common(labels, template, model, size), **own}
    output = Output(file=picture, plot=plot, map=out, coco=coco, as_json=as_json)
    ask(lambda client: client.segment(picture, **options), address_of(url, grpc), api_key, output)


def classify(
    picture: Picture,
    labels: Labels = None,
    template: Templates = None,
    model: Model = None,
    size: Size = None,
    fit: Fit = None,
    top_k: TopK = 5,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Say what the whole picture shows."""
    options = {**common(labels, template, model, size), "fit": fit, "top_k": top_k}
    output = Output(file=picture, as_json=as_json)
    ask(lambda client: client.classify(picture, **options), address_of(url, grpc), api_key, output)


def register(app: typer.Typer) -> None:
    """Add the verb and its commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
    for command, example in ((regions, _REGIONS), (detect, _DETECT), (segment, _SEGMENT), (classify, _CLASSIFY)):
        group.command(epilog=example)(command)
    app.add_typer(group, name="image", epilog=_DETECT)
