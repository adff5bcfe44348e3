"""How `pressroom image` sends, prints, draws and writes: tables for people, JSON for machines, pictures for both."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from pressroom.call import refuse
from pressroom.output import print_json, print_table

if TYPE_CHECKING:
    from PIL import Image
    from pressroom_client import Box, Client, ImageResult, SegmentResult

R = TypeVar("R", bound="ImageResult")


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where an answer goes. plot: the picture, drawn on; map: of `segment`, the labels' values as a palette PNG."""

    file: Path
    plot: Path | None = None
    map: Path | None = None
    coco: bool = False
    as_json: bool = False


def ask(call: Callable[[Client], R], address: str, api_key: str | None, output: Output) -> None:
    """Call, then draw, write and print; an error of the client ends the command."""
    from pressroom_client import Client, PressroomError, UsageError

    try:
        with Client(address, api_key=api_key) as client:
            result = call(client)
        _show(result, output)
    except PressroomError as error:
        refuse(error, output.as_json or output.coco, 2 if isinstance(error, UsageError) else 1)


def common(
    labels: list[str] | None, templates: list[str] | None, model: str | None, size: int | None
) -> dict[str, Any]:
    """Options every image call has."""
    named = [part.strip() for given in labels or [] for part in given.split(",") if part.strip()]
    options = {"labels": named or None, "templates": templates or None, "model": model, "size": size}
    return {name: value for name, value in options.items() if value is not None}


def read_boxes(given: Sequence[str], file: Path | None) -> list[Any]:
    """Boxes of the command line, then those of a JSON file."""
    boxes: list[Any] = []
    for text in given:
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != 4:
            raise typer.BadParameter(f"got {text!r}, expected four numbers X0,Y0,X1,Y1", param_hint="--box")
        boxes.append(numbers)
    if file is not None:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{file.name} is not JSON: {error}", param_hint="--boxes") from None
        if not isinstance(found, list):
            raise typer.BadParameter(f"{file.name} holds no list of boxes", param_hint="--boxes")
        boxes += found
    return boxes


def read_mask(path: Path) -> dict[str, str]:
    """A mask file as the request carries it; the server judges it."""
    return {"png": base64.b64encode(path.read_bytes()).decode()}


def _show(result: ImageResult, output: Output) -> None:
    if output.plot is not None:
        _write(output.plot, result.draw())  # type: ignore[attr-defined]
    if output.map is not None:
        _write(output.map, map_image(result))  # type: ignore[arg-type]
    if output.coco:
        print_json(result.to_coco(image_id=output.file.stem))  # type: ignore[attr-defined]
    elif output.as_json:
        print_json(as_json(result))
    else:
        _print_tables(result)
        for written in filter(None, (output.plot, output.map)):
            print(f"{written} written")


def map_image(result: SegmentResult) -> Image.Image:
    """The label map as a palette picture: pixel values are the segments' values."""
    from PIL import Image

    drawn = Image.fromarray(result.map.astype("uint8"))
    colors = {one.value: one.color for one in result.segments}
    drawn.putpalette([part for value in range(256) for part in colors.get(value, (0, 0, 0))])
    return drawn


def as_json(result: ImageResult) -> dict[str, Any]:
    """All the result's fields, files left out."""
    found = {one.name: getattr(result, one.name) for one in fields(result) if one.name not in ("_picture", "png")}
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {name: part for name, part in asdict(value).items() if not isinstance(part, bytes)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _print_tables(result: ImageResult) -> None:
    from pressroom_client import ClassifyResult, DetectResult, RegionsResult, SegmentResult

    if isinstance(result, RegionsResult):
        heading = ["region", "box", "labels"]
        rows = [[f"{one.kind} {one.index}", _box(one.box, one.clipped), _top(one.top)] for one in result]
    elif isinstance(result, DetectResult):
        heading = ["label", "score", "box"]
        rows = [[one.label, f"{one.score:.3f}", _box(one.box)] for one in result]
    elif isinstance(result, SegmentResult):
        heading, total = ["label", "share"], result.map_width * result.map_height
        rows = [[one.label, f"{one.pixels / total:.1%}"] for one in result]
    elif isinstance(result, ClassifyResult):
        heading = ["label", "score", "cosine"]
        rows = [[one.label, f"{one.score:.3f}", f"{one.cosine:.3f}"] for one in result.top]
    print_table(heading, rows)
    if isinstance(result, DetectResult) and result.proposals == "grid":
        print("boxes are windows of several sizes; this model is no detector")
    total_ms = "" if result.timings.total_ms is None else f", {result.timings.total_ms:.1f} ms in the server"
    size = f"{result.width} x {result.height} px"
    print(f"{result.model}:{result.version}  {result.digest}\n{size}, request id {result.request_id}{total_ms}")


def _box(box: Box, clipped: bool = False) -> str:
    return " ".join(f"{value:.1f}" for value in box) + (" (clipped)" if clipped else "")


def _top(top: Sequence[Any]) -> str:
    return ", ".join(f"{one.label} {one.score:.3f}" for one in top)


def _write(path: Path, picture: Image.Image) -> None:
    """A picture in the format its name asks for; a folder that does not exist is made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} cannot be written: {error}") from None
