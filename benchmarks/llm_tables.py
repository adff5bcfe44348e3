"""The language-model benchmark's result as tables, a page and a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.llm_campaign import MIXED, PROMPT, TOGETHER, Campaign
from benchmarks.llm_contenders import contenders
from benchmarks.llm_figures import Figures
from benchmarks.machine import describe
from benchmarks.report import table
from benchmarks.serving_tables import VERDICT_HEADINGS, verdict_rows
from benchmarks.verdicts import Verdict

Roofs = Mapping[str, tuple[float, float]]

HEADINGS = (
    "tokens a CPU second", "one at a time", "after the first", f"{TOGETHER} at once", f"{TOGETHER} unequal",
    "first token ms", f"while {TOGETHER} run", "as transformers fp32",
)  # fmt: skip
ROOF_HEADINGS = ("weights", "MB read a token", "tokens/s memory allows", "reached", "share")


def rows(found: Mapping[str, Figures]) -> list[list[str]]:
    """One line a contender."""
    return [[contenders()[name].title, *_cells(numbers)] for name, numbers in found.items()]


def _cells(numbers: Figures) -> list[str]:
    rates = [f"{numbers[key]:.0f}" if key in numbers else "-" for key in ("alone", "decode", "eight", "mixed")]
    times = [f"{numbers[key]:.0f}" if key in numbers else "-" for key in ("idle", "loaded")]
    return [*rates, *times, f"{numbers['agreement']:.0%}" if "agreement" in numbers else "-"]


def roof_rows(found: Mapping[str, Figures], roofs: Roofs, read: Mapping[str, int]) -> list[list[str]]:
    """One line for each of our precisions."""
    return [
        [
            contenders()[name].title,
            f"{read[name] / 1e6:.0f}",
            f"{limit:.0f}",
            f"{found[name]['decode']:.0f}",
            f"{share:.2f}",
        ]
        for name, (limit, share) in roofs.items()
    ]


def document(
    campaign: Campaign, found: Mapping[str, Figures], roofs: Roofs, claims: Sequence[Verdict]
) -> dict[str, Any]:
    """Everything that was measured, for --json; prompts and tokens are left out."""
    kept = ("cpu", "seconds", "first")
    return {
        "machine": describe(),
        "plan": asdict(campaign.plan),
        "versions": campaign.versions,
        "not_measured": campaign.missing,
        "load_average_at_start": campaign.load,
        "bandwidth_bytes_per_second": campaign.bandwidth,
        "figures": {name: dict(numbers) for name, numbers in found.items()},
        "roofline": {name: {"tokens_per_second": limit, "share": share} for name, (limit, share) in roofs.items()},
        "rounds": {
            name: {task: [{k: one[k] for k in kept if k in one} for one in done] for task, done in measured.items()}
            for name, measured in campaign.results.items()
        },
        "verdicts": [asdict(claim) for claim in claims],
    }


def sections(
    campaign: Campaign,
    found: Mapping[str, Figures],
    roofs: Roofs,
    read: Mapping[str, int],
    claims: Sequence[Verdict],
) -> list[str]:
    """The page docs/llm-benchmarks.md."""
    plan = campaign.plan
    parts = [
        f"""# Language-model benchmarks

SmolLM2-135M-Instruct, greedy, one thread each, {plan.tokens} tokens an answer (end tokens are ignored), every engine
in a process of its own, the same prompts for all of them and new ones every round, so that no cache of prompts helps.
Tokens a CPU second count the CPU time of the whole process tree, prompts included; they depend on the neighbours far
less than tokens a second do. Prompts have {PROMPT} tokens; unequal ones {", ".join(map(str, MIXED))}. Our engine is
measured without HTTP, as are all others but llama.cpp's server, of which only the server's own CPU time counts.
Median of {plan.rounds} interleaved rounds. `benchmarks/README.md` explains every column.

{quiet(campaign)}""",
        "## Verdicts\n\n" + table(VERDICT_HEADINGS, verdict_rows(claims)),
        "## Engines\n\n" + table(HEADINGS, rows(found)),
        f"""## What memory allows

One request at a time, every token reads all weights once. One thread reads {bandwidth(campaign):.1f} GB/s here
(256 MiB, median over the rounds); tokens after the first, divided by what that allows:

{table(ROOF_HEADINGS, roof_rows(found, roofs, read))}""",
    ]
    if campaign.missing:
        lines = [f"- {contenders()[name].title}: {why}" for name, why in campaign.missing.items()]
        parts.append("## Not measured\n\n" + "\n".join(lines))
    versions = [f"- {contenders()[name].title}: {told}" for name, told in campaign.versions.items()]
    return [*parts, "## Versions\n\n" + "\n".join(versions)]


def bandwidth(campaign: Campaign) -> float:
    """GB/s one thread read."""
    return median(campaign.bandwidth or [0.0]) / 1e9


def quiet(campaign: Campaign) -> str:
    """One sentence on who else used the machine."""
    others = median(campaign.others or [0.0])
    if others <= 0.1:
        return f"Other programs used {others:.0%} of a core meanwhile (median)."
    return (
        f"**The machine was not quiet: other programs used {others:.0%} of a core meanwhile (median).**\nFirst tokens "
        "are slower than on a quiet machine, and CPU seconds longer, as memory is shared; ratios hold better."
    )
