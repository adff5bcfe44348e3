"""`pressroom bench`: how fast a running server answers, ours or any other that speaks the Open Inference Protocol.

Closed loops (`--clients`) and open loops (`--rate`), over the native route, the protocol's REST in JSON and binary, and
gRPC; windows are repeated until three agree. Language models are asked for streams of tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pressroom.output import console, print_json, print_table, progress_bar
from pressroom.tables import names

if TYPE_CHECKING:
    from pressroom.bench_load import Load
    from pressroom.bench_requests import Payload
    from pressroom.bench_run import Pace, Result
    from pressroom.bench_target import Model, Server
    from pressroom.bench_text import Prompting

_EXAMPLE = "Example: pressroom bench http://127.0.0.1:3000 --model itransformer-etth1 --clients 1,16,64"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What requests hold and how they go out, as the command line says it."""

    wires: Sequence[str]
    input: Path | None
    route: str | None
    shapes: dict[str, list[int]]
    rows: int
    tolerance: float | None


def bench(
    url: Annotated[str, typer.Argument(help="http://HOST:PORT or https://HOST:PORT.")],
    model: Annotated[str, typer.Option(help="name or name:version.")],
    wire: Annotated[
        str | None,
        typer.Option(help="Of native, oip-json, oip-binary, grpc, comma separated. Default: the first there is."),
    ] = None,
    clients: Annotated[
        str | None, typer.Option(help="Closed loops: numbers of clients, comma separated. [1,16]")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Open loops: requests a second, like 50,100.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.05, help="Length of a window. [2; streams: 10]")] = None,
    warm: Annotated[float, typer.Option(min=0, help="Seconds of load before the first window.")] = 1.0,
    stability: Annotated[float, typer.Option(min=0.1, help="Three windows agree within this many %.")] = 10.0,
    max_windows: Annotated[int, typer.Option(min=3, help="Windows at most.")] = 10,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", exists=True, dir_okay=False, help="JSON request. Default: the model's example."),
    ] = None,
    route: Annotated[str | None, typer.Option(help="Native route of --input. Default: the family's.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(metavar="NAME=1,96,7", help="Shape of a random tensor with free axes.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows (first axis) of a request of random tensors.")] = 1,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Compare answers with the first to the same request.")
    ] = True,
    tolerance: Annotated[float, typer.Option(min=0, help="... within this share of its largest number.")] = 0.01,
    grpc: Annotated[str | None, typer.Option(help="HOST:PORT of gRPC. Default: the port after HTTP's.")] = None,
    api_key: Annotated[
        str, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.", show_default=False)
    ] = "",
    ca: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="PEM certificates that vouch for the server.")
    ] = None,
    generate: Annotated[
        bool | None, typer.Option("--generate/--no-generate", help="Ask for streams of tokens. Default: as the model.")
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Streams: /v1/chat/completions.")] = False,
    words: Annotated[int, typer.Option(min=1, help="Streams: random words of a prompt.")] = 40,
    tokens: Annotated[int, typer.Option(min=1, help="Streams: tokens asked for.")] = 64,
    ignore_eos: Annotated[bool, typer.Option(help="Streams: go on after the model's end token.")] = True,
    ttft_ms: Annotated[float, typer.Option(min=0, help="Streams: limit of goodput on the first token.")] = 1000.0,
    itl_ms: Annotated[float, typer.Option(min=0, help="Streams: limit of goodput on the mean gap.")] = 100.0,
    seed: Annotated[int, typer.Option(min=0, help="Of random requests and arrivals.")] = 0,
    png: Annotated[Path | None, typer.Option(help="Draw a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Put load on a server. Exit status 1 if something failed, was wrong or never became stable."""
    from pressroom.bench_run import Pace
    from pressroom.bench_target import ask_model, read_server
    from pressroom.bench_text import Prompting

    loads, shapes, wires = _loads(clients, rate), _shapes(shape or []), names(wire or "")
    server = read_server(url, grpc, api_key, ca)
    found = ask_model(server, model)
    streams = found.generates if generate is None else generate
    pace = Pace(
        seconds=seconds or (10.0 if streams else 2.0), warm=warm, stability=stability / 100, max_windows=max_windows,
        seed=seed,
    )  # fmt: skip
    if streams:
        body = _body(input_file)
        prompting = Prompting(model=model, chat=chat, words=words, tokens=tokens, ignore_eos=ignore_eos, body=body)
        results = _stream(server, prompting, loads, pace)
    else:
        limit = tolerance if compare else None
        asked = Asked(wires=wires, input=input_file, route=route, shapes=shapes, rows=rows, tolerance=limit)
        results = _ask(server, found, asked, loads, pace)
    _show(results, ttft_ms, itl_ms, as_json)
    if png is not None:
        from pressroom.bench_report import draw

        draw(results, png)
    if not all(one.fine for one in results):
        raise typer.Exit(1)


def _loads(clients: str | None, rate: str | None) -> list[Load]:
    from pressroom.bench_load import Load

    counts = names(clients or ("" if rate else "1,16"))
    if not all(part.isdigit() and 0 < int(part) <= 4096 for part in counts):
        raise typer.BadParameter(
            f"{clients!r}: expected whole numbers from 1 to 4096 like 1,16", param_hint="--clients"
        )
    try:
        rates = [float(part) for part in names(rate or "")]
    except ValueError:
        rates = [0.0]
    if not all(0 < value <= 1e5 for value in rates):
        raise typer.BadParameter(f"{rate!r}: expected requests a second like 50,100", param_hint="--rate")
    return [Load(clients=int(part)) for part in counts] + [Load(rate=value) for value in rates]


def _shapes(entries: Sequence[str]) -> dict[str, list[int]]:
    try:
        pairs = [entry.split("=") for entry in entries]
        return {name: [int(part) for part in names(sizes)] for name, sizes in pairs}
    except ValueError:
        raise typer.BadParameter(f"{', '.join(entries)!r} is not NAME=1,96,7", param_hint="--shape") from None


def _body(file: Path | None) -> dict[str, object] | None:
    import json

    if file is None:
        return None
    try:
        body = json.loads(file.read_text())
    except ValueError as error:
        raise typer.BadParameter(f"{file.name} is not JSON: {error}", param_hint="--input") from None
    if not isinstance(body, dict):
        raise typer.BadParameter(f"{file.name} is no JSON object", param_hint="--input")
    return body


def _ask(server: Server, model: Model, asked: Asked, loads: list[Load], pace: Pace) -> list[Result]:
    import uvloop

    from pressroom.bench_run import Plan, measure

    payload = _payload(model, asked, pace.seed)
    wires = asked.wires or payload.wires[:1]
    if unknown := [one for one in wires if one not in payload.wires]:
        known = ", ".join(payload.wires)
        raise typer.BadParameter(f"{unknown[0]!r}: this request can be sent as {known}", param_hint="--wire")
    plan = Plan(wires=wires, loads=loads, pace=pace, tolerance=asked.tolerance)
    with progress_bar() as report, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure(server, model, payload, plan, report))


def _payload(model: Model, asked: Asked, seed: int) -> Payload:
    from pressroom.bench_requests import from_file, from_model

    if asked.input is not None:
        return from_file(asked.input, model, asked.route)
    return from_model(model, asked.rows, asked.shapes, seed)


def _stream(server: Server, prompting: Prompting, loads: list[Load], pace: Pace) -> list[Result]:
    import uvloop

    from pressroom.bench_text import measure_text

    with progress_bar() as report, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure_text(server, prompting, loads, pace, report))


def _show(results: Sequence[Result], ttft_ms: float, itl_ms: float, as_json: bool) -> None:
    from pressroom import bench_report as report
    from pressroom.bench_text import TextWindow

    if as_json:
        print_json(report.document(results, ttft_ms, itl_ms))
        return
    if isinstance(results[0].settled, TextWindow):
        print_table(report.TEXT_HEADINGS, report.text_rows(results, ttft_ms, itl_ms))
    else:
        print_table(report.HEADINGS, report.rows(results))
    for remark in report.remarks(results):
        console().print(remark, markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=_EXAMPLE)(bench)
