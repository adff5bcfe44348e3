"""Speed of the served forecasters: requests/s, latency and server CPU a request, with batching on and off.

    python -m benchmarks.serving [--quick] [--json FILE] [--write-docs]

Exit status: 0 every claim holds, 1 one does not (or an answer was wrong), 2 misuse.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.command import chosen, run
from benchmarks.server import gateway, use_own_store

if TYPE_CHECKING:
    from benchmarks.campaign import Campaign, Plan
    from benchmarks.verdicts import Verdict

NO_BATCHING = {"PRESSROOM_MAX_BATCH_ROWS": "1"}
MODELS = "PRESSROOM_MODELS"  # whatever else the store holds stays out
_EXAMPLE = "python -m benchmarks.serving --quick --models card-etth1 --wires oip-binary,grpc"


def main(
    models: Annotated[str, typer.Option(help="Bundled models, comma separated.")] = "itransformer-etth1,card-etth1",
    wires: Annotated[str, typer.Option(help="Of json, oip-json, oip-binary, grpc.")] = "json,oip-json,oip-binary,grpc",
    clients: Annotated[str, typer.Option(help="Numbers of closed-loop clients.")] = "1,16,64",
    rounds: Annotated[int, typer.Option(min=1, help="Everything this many times; medians are reported.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.05, help="Length of a measured window.")] = 2.0,
    quick: Annotated[bool, typer.Option(help="One round of short windows: is it alive, roughly how fast.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    write_docs: Annotated[bool, typer.Option(help="Write docs/serving-benchmarks.md.")] = False,
) -> None:
    """Measure the served forecasters beside onnxruntime in this process."""
    use_own_store()
    from benchmarks.campaign import Plan

    plan = Plan(
        models=_models(models),
        wires=_wires(wires),
        clients=_counts(clients),
        rounds=1 if quick else rounds,
        seconds=min(seconds, 0.6) if quick else seconds,
        warm=0.2 if quick else 0.5,
    )
    if not _report(plan, _run(plan), json_file, write_docs):
        raise typer.Exit(1)


def _models(text: str) -> list[str]:
    from pressroom.bundled import BUNDLED

    return chosen(text, [one.name for one in BUNDLED], "--models")


def _wires(text: str) -> list[str]:
    from benchmarks.wires import WIRES

    return chosen(text, WIRES, "--wires")


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r}: expected positive whole numbers like 1,16,64", param_hint="--clients")
    return [int(part) for part in parts]


def _run(plan: Plan) -> Campaign:
    from benchmarks.campaign import Campaign, Subject
    from benchmarks.load import LoadGenerator
    from benchmarks.local import local_model
    from benchmarks.windows import split_windows
    from pressroom.bundled import press_bundled

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
        task = bar.add_task("press the bundled checkpoints", total=plan.shots() + plan.rounds * len(plan.models))
        press_bundled()
        windows = split_windows()
        local = {name: local_model(name) for name in plan.models}
        subjects = {name: Subject(model, model.forecast(windows)) for name, model in local.items()}
        bar.update(task, description="start two gateways")
        served = {MODELS: ",".join(plan.models)}
        servers = {
            True: stack.enter_context(gateway(served)),
            False: stack.enter_context(gateway(served | NO_BATCHING)),
        }
        generator = stack.enter_context(LoadGenerator())
        campaign = Campaign(plan, subjects, windows)
        campaign.run(servers, generator, lambda what: bar.update(task, description=what, advance=1))
    return campaign


def _report(plan: Plan, campaign: Campaign, json_file: Path | None, write_docs: bool) -> bool:
    """Print, and write what was asked for; whether every claim holds."""
    from benchmarks import serving_tables as tables
    from benchmarks.report import write_page
    from benchmarks.verdicts import verdicts

    found = verdicts(tables.summary(campaign))
    _print(plan, campaign, found)
    if json_file is not None:
        json_file.write_text(json.dumps(tables.document(plan, campaign, found), indent=2) + "\n")
    if write_docs:
        sections = tables.sections(plan, campaign, found)
        write_page("serving-benchmarks.md", "python -m benchmarks.serving --write-docs", sections)
    return all(verdict.holds for verdict in found)


def _print(plan: Plan, campaign: Campaign, found: list[Verdict]) -> None:
    from benchmarks import serving_tables as tables
    from benchmarks.machine import describe
    from pressroom.output import print_table

    for key, value in describe().items():
        print(f"{key}: {value}")
    print(f"load average at the start: {campaign.load:.2f}\n")
    for model in plan.models:
        print(model)
        print_table(tables.HEADINGS, tables.rows(model, tables.summary(campaign)))
        print()
    print_table(tables.FLOOR_HEADINGS, tables.floor_rows(campaign))
    print()
    if campaign.echoes:
        print_table(tables.ECHO_HEADINGS, tables.echo_rows(campaign))
        print()
    print_table(tables.VERDICT_HEADINGS, tables.verdict_rows(found))
    for failure in campaign.failures:
        print(f"failed: {failure}")


if __name__ == "__main__":
    run(main, _EXAMPLE)
