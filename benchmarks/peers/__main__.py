"""Pressroom beside other model servers: the same graphs, the same load, one run.

    python -m benchmarks.peers [--quick] [--peers NAME,...] [--models NAME,...] [--json FILE] [--write-docs]

Peers get environments of their own under out/peers on the first run (a package index is needed). Exit status: 0 every
claim holds, 1 one does not or a peer is missing, 2 misuse.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.command import ALL, chosen, run
from benchmarks.environments import PeerMissing
from benchmarks.peers.contenders import CONTENDERS, OURS
from benchmarks.server import use_own_store

if TYPE_CHECKING:
    from benchmarks.peers.campaign import Campaign, Plan
    from benchmarks.verdicts import Verdict

MODELS = ("itransformer", "card", "regions", "mlp")
_EXAMPLE = "python -m benchmarks.peers --quick --peers mosec,triton --models mlp"


def main(
    peers: Annotated[str, typer.Option(help=f"Of {', '.join(n for n in CONTENDERS if n != OURS)}.")] = ALL,
    models: Annotated[str, typer.Option(help=f"Of {', '.join(MODELS)}.")] = ALL,
    rounds: Annotated[int, typer.Option(min=1, help="Everything this many times; medians are reported.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.05, help="Length of a measured window.")] = 1.0,
    quick: Annotated[bool, typer.Option(help="One round of short windows: is it alive, roughly how fast.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    write_docs: Annotated[bool, typer.Option(help="Write docs/benchmarks.md and its charts.")] = False,
) -> None:
    """Measure Pressroom and its peers side by side."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended on the way out
    use_own_store()
    from benchmarks.peers.campaign import Plan

    plan = Plan(
        subjects=chosen(models, MODELS, "--models"),
        contenders=[OURS, *chosen(peers, [name for name in CONTENDERS if name != OURS], "--peers")],
        rounds=1 if quick else rounds,
        seconds=min(seconds, 0.5) if quick else seconds,
        warm=0.2 if quick else 0.4,
    )
    campaign = _run(plan)
    if not _report(campaign, json_file, write_docs) or campaign.missing:
        raise typer.Exit(1)


def _run(plan: Plan) -> Campaign:
    from benchmarks.load import LoadGenerator
    from benchmarks.peers.campaign import Campaign
    from benchmarks.peers.press import press
    from benchmarks.peers.subjects import SUBJECTS
    from benchmarks.peers.wires import Requests

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("environments", total=plan.shots())
        pythons, missing = _environments(plan, lambda what: bar.update(task, description=what))
        campaign = Campaign(plan, pythons)
        campaign.missing |= missing
        subjects = []
        for name in plan.subjects:
            bar.update(task, description=f"{name}: make and press")
            subjects.append(SUBJECTS[name]())
            press(subjects[-1])
        with LoadGenerator(Requests({one.name: one.inputs for one in subjects})) as generator:
            for subject in subjects:
                bar.console.print(f"{subject.title}: {plan.shots() // len(subjects)} measurements")
                campaign.run(subject, generator, lambda what, done: bar.update(task, description=what, advance=done))
    return campaign


def _environments(plan: Plan, report: Callable[[str], None]) -> tuple[dict[str, Path], dict[str, str]]:
    """Interpreters by contender, made where they are not there; and why some could not be."""
    pythons, missing = {}, {}
    for name in plan.contenders:
        report(f"{name}: environment")
        try:
            pythons[name] = CONTENDERS[name].python()
        except PeerMissing as error:
            missing[name] = str(error)
    return pythons, missing


def _report(campaign: Campaign, json_file: Path | None, write_docs: bool) -> bool:
    """Print, and write what was asked for; whether every claim holds."""
    from benchmarks.peers import tables
    from benchmarks.peers.verdicts import verdicts

    numbers = tables.summary(campaign)
    found = verdicts(numbers)
    _print(campaign, found)
    if json_file is not None:
        json_file.write_text(json.dumps(tables.document(campaign, found), indent=2) + "\n")
    if write_docs:
        from benchmarks.peers.charts import draw
        from benchmarks.report import DOCS, write_page

        draw(DOCS, numbers)
        write_page("benchmarks.md", "python -m benchmarks.peers --write-docs", tables.sections(campaign, found))
    return all(verdict.holds for verdict in found)


def _print(campaign: Campaign, found: list[Verdict]) -> None:
    from benchmarks.machine import describe
    from benchmarks.peers import tables
    from benchmarks.serving_tables import VERDICT_HEADINGS, company, verdict_rows
    from pressroom.output import print_table

    for key, value in describe().items():
        print(f"{key}: {value}")
    numbers = tables.summary(campaign)
    print(f"load average at the start: {campaign.load:.2f}; {company(numbers)}\n")
    for subject, load, cells in tables.groups(campaign):
        print(f"{subject}, {load}")
        print_table(tables.HEADINGS, tables.rows(cells, numbers))
        print()
    print_table(tables.overview_headings(campaign), tables.overview_rows(campaign, numbers))
    print()
    print_table(tables.MEMORY_HEADINGS + tuple(campaign.floors), tables.memory_rows(campaign))
    print()
    print_table(tables.FLOOR_HEADINGS, tables.floor_rows(campaign))
    print()
    print_table(VERDICT_HEADINGS, verdict_rows(found))
    for failure in campaign.failures:
        print(f"failed: {failure}")
    for name, why in campaign.missing.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    run(main, _EXAMPLE)
