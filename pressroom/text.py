"""`pressroom text`: where a text comes from, asked of a running server. Files, or standard input as `-`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.call import address_of, refuse
from pressroom.output import print_json, print_table
from pressroom.text_input import read_texts
from pressroom.text_watermark import DECODE_EXAMPLE, KEY_EXAMPLE, WATERMARK_EXAMPLE, decode, key, watermark

if TYPE_CHECKING:
    from pressroom_client import DetectTextResult, TextVerdict

_EXAMPLE = "Example: pressroom text detect essay.txt --model smollm2-text"
_HELP = "Where a text comes from."
_AT_ONCE = 16  # texts of one request

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Each one text, UTF-8; - is standard input.")]
Model = Annotated[str | None, typer.Option(help="name or name:version. Default: the only one served.")]
Url = Annotated[str | None, typer.Option(help="http://host:port or grpc://host:port. Default: this machine.")]
Grpc = Annotated[bool, typer.Option("--grpc", help="Speak gRPC.")]
ApiKey = Annotated[str | None, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.")]
Mode = Annotated[str | None, typer.Option(help="white_box or black_box. Default: white_box.")]
Statistic = Annotated[str | None, typer.Option(help="What the verdict rests on. Default: the detector's.")]
Regenerations = Annotated[int | None, typer.Option(min=0, help="Of each text. Default: the detector's.")]
Seconds = Annotated[float, typer.Option("--timeout", min=1, help="Longest wait for one answer, s.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")]


def detect(
    files: Files,
    model: Model = None,
    url: Url = None,
    grpc: Grpc = False,
    mode: Mode = None,
    statistic: Statistic = None,
    regenerations: Regenerations = None,
    api_key: ApiKey = None,
    timeout: Seconds = 300.0,
    as_json: AsJson = False,
) -> None:
    """Say whether texts were written by a language model, as a calibrated detector sees it."""
    from pressroom_client import Client, PressroomError, UsageError

    texts = read_texts(files)
    options: dict[str, Any] = {"mode": mode, "statistic": statistic, "regenerations": regenerations, "model": model}
    names = list(texts)
    results: list[DetectTextResult] = []
    try:
        with Client(address_of(url, grpc), api_key=api_key, timeout=timeout) as client:
            for at in range(0, len(names), _AT_ONCE):
                batch = {name: texts[name] for name in names[at : at + _AT_ONCE]}
                results.append(client.detect_text(batch, **options))
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    print_json([_as_json(one) for one in results]) if as_json else _show(results)


def register(app: typer.Typer) -> None:
    """Add the verb and its families."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
    group.command(epilog=_EXAMPLE)(detect)
    group.command(epilog=WATERMARK_EXAMPLE)(watermark)
    group.command(epilog=DECODE_EXAMPLE)(decode)
    group.command(epilog=KEY_EXAMPLE)(key)
    app.add_typer(group, name="text", epilog=_EXAMPLE)


def _show(results: list[DetectTextResult]) -> None:
    rows = [_row(text) for result in results for text in result]
    print_table(["text", "verdict", "score", "machine above", "declared FPR", "words", "evidence"], rows)
    for result in results:
        for text in result:
            for note in text.warnings:
                print(f"note: {text.id}: {note.message}")
    last = results[-1]
    suspect = last.generator["upstream"] or f"{last.generator['name']}:{last.generator['version']}"
    print(f"{last.model}:{last.version}  {last.digest}\nsuspected: {suspect}; evidence, not proof")


def _row(text: TextVerdict) -> list[str]:
    threshold = text.threshold
    return [
        str(text.id),
        text.verdict,
        "-" if text.score is None else f"{text.statistic} {text.score:.3f}",
        "-" if threshold is None else f"{threshold.machine_above:.3f}",
        "-" if threshold is None else f"{threshold.declared_false_positive_rate:g}",
        str(text.words),
        f"{len(text.evidence)} runs, longest {max((run.words for run in text.evidence), default=0)} words",
    ]


def _as_json(result: DetectTextResult) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(result)
