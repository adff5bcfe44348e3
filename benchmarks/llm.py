"""Speed of the generation engine beside its peers: tokens a CPU second, first tokens, share of the memory roofline.

    python -m benchmarks.llm [--quick] [--peers NAME,...] [--json FILE] [--write-docs]

Peers that need other packages get environments of their own under out/peers on the first run (a package index is
needed; llama.cpp is compiled). Exit status: 0 every claim holds, 1 one does not or a peer is missing, 2 misuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.command import ALL, chosen, run
from benchmarks.environments import PeerMissing
from benchmarks.llm_campaign import Campaign, Plan, Prompts, measurements
from benchmarks.llm_contenders import PRECISIONS, Contender, artifact, contenders, folder, ours
from benchmarks.llm_process import PeerError, PeerProcess
from benchmarks.server import use_own_store

if TYPE_CHECKING:
    from benchmarks.llm_figures import Figures
    from benchmarks.verdicts import Verdict

_EXAMPLE = "python -m benchmarks.llm --quick --peers pressroom-int8,transformers-fp32"


def main(
    peers: Annotated[str, typer.Option(help="Who is measured, comma separated; see the table for names.")] = ALL,
    rounds: Annotated[int, typer.Option(min=1, help="Everything this many times; medians are reported.")] = 3,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of an answer.")] = 48,
    quick: Annotated[bool, typer.Option(help="One round of short answers: is it alive, roughly how fast.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    write_docs: Annotated[bool, typer.Option(help="Write docs/llm-benchmarks.md.")] = False,
) -> None:
    """Measure the generation engine beside other engines."""
    use_own_store()
    known = contenders()
    measured = {name: known[name] for name in chosen(peers, known, "--peers")}
    plan = Plan(1, min(tokens, 16), 2) if quick else Plan(rounds, tokens)
    campaign = _run(plan, measured)
    if not _report(campaign, json_file, write_docs) or campaign.missing:
        raise typer.Exit(1)


def _run(plan: Plan, measured: Mapping[str, Contender]) -> Campaign:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    campaign = Campaign(plan)
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
        task = bar.add_task("environments and artifacts", total=measurements(plan, list(measured.values())))
        commands = _commands(measured, campaign, lambda what: bar.update(task, description=what))
        bar.update(task, description="load the models")
        running = _started(measured, commands, campaign, stack)
        prompts = Prompts(folder() / "tokenizer.json")
        campaign.run(running, prompts, lambda what: bar.update(task, description=what, advance=1))
    return campaign


def _commands(
    measured: Mapping[str, Contender], campaign: Campaign, report: Callable[[str], None]
) -> dict[str, list[str]]:
    """How each is started, after its environment and files were made; what cannot be made is reported as missing."""
    found = {}
    for name, contender in measured.items():
        report(f"{name}: environment and files")
        try:
            found[name] = contender.command()
        except PeerMissing as error:
            campaign.missing[name] = str(error)
    return found


def _started(
    measured: Mapping[str, Contender], commands: Mapping[str, list[str]], campaign: Campaign, stack: ExitStack
) -> dict[str, tuple[Contender, PeerProcess]]:
    """Started one after another: loading needs memory and cores."""
    found = {}
    for name, command in commands.items():
        process = PeerProcess(name, command, measured[name].settings)
        stack.callback(process.stop)
        try:
            campaign.versions[name] = process.ready()
            found[name] = (measured[name], process)
        except PeerError as error:
            campaign.missing[name] = str(error)
    return found


def _report(campaign: Campaign, json_file: Path | None, write_docs: bool) -> bool:
    """Print, and write what was asked for; whether every claim holds."""
    from benchmarks import llm_tables as tables
    from benchmarks.llm_figures import complete, figures, roofline
    from benchmarks.llm_verdicts import verdicts
    from benchmarks.report import write_page

    found = figures(campaign)
    read = _weights(found)
    roofs = roofline(campaign, read)
    claims = verdicts(found, roofs, complete(campaign))
    _print(campaign, found, tables.roof_rows(found, roofs, read), claims)
    if json_file is not None:
        json_file.write_text(json.dumps(tables.document(campaign, found, roofs, claims), indent=2) + "\n")
    if write_docs:
        page = tables.sections(campaign, found, roofs, read, claims)
        write_page("llm-benchmarks.md", "python -m benchmarks.llm --write-docs", page)
    return all(claim.holds for claim in claims)


def _weights(found: Mapping[str, Figures]) -> dict[str, int]:
    """Bytes of weights our graphs read a token."""
    from benchmarks.llm_memory import weight_bytes

    measured = [precision for precision in PRECISIONS if ours(precision) in found]
    return {ours(precision): weight_bytes(artifact(precision) / "model.onnx") for precision in measured}


def _print(campaign: Campaign, found: Mapping[str, Figures], roofs: list[list[str]], claims: list[Verdict]) -> None:
    from benchmarks import llm_tables as tables
    from benchmarks.machine import describe
    from benchmarks.serving_tables import VERDICT_HEADINGS, verdict_rows
    from pressroom.output import print_table

    for key, value in describe().items():
        print(f"{key}: {value}")
    print(f"{tables.quiet(campaign)}\none thread reads {tables.bandwidth(campaign):.1f} GB/s\n")
    print_table(tables.HEADINGS, tables.rows(found))
    print()
    print_table(tables.ROOF_HEADINGS, roofs)
    print()
    print_table(VERDICT_HEADINGS, verdict_rows(claims))
    for name, why in campaign.missing.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    run(main, _EXAMPLE)
