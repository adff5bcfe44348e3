"""`pressroom verify` of a language model: its certificate's cases and its example, repeated without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact
    from export.llm_parity import CaseResult


def verify_llm(artifact: Artifact, as_json: bool) -> int:
    """0 if all of it holds, else 1. The artifact is open, which is to say that all digests are right."""
    from export.llm_example import Completer, largest_difference
    from export.llm_parity import BOUNDS, breach, recheck, totals
    from models.llm.spec import LanguageModelSpec

    spec = LanguageModelSpec.from_settings(artifact.manifest.settings)
    cases = recheck(artifact, spec)
    every = totals(cases)
    broken = breach(every, BOUNDS[spec.precision])
    example, example_holds = largest_difference(artifact.read_json("example.json"), Completer(artifact.path, spec))
    holds = broken is None and example_holds
    if as_json:
        print_json(_as_json(artifact, [*cases, every], example, example_holds, holds))
    else:
        _print(artifact, cases, every, broken, example, example_holds)
    return 0 if holds else 1


def _print(
    artifact: Artifact, cases: list[CaseResult], every: CaseResult, broken: str | None, example: float, told: bool
) -> None:
    headings = [
        "case",
        "kernels",
        "rows",
        "positions",
        "max |diff| nats",
        "mean divergence",
        "same token",
        "greedy",
        "verdict",
    ]
    verdict = "ok" if broken is None else f"FAIL: {broken}"
    rows = [[*_cells(one), ""] for one in cases] + [[*_cells(every), verdict]]
    words = "same tokens" if told else "other tokens"
    rows.append(["example", "-", "1", "-", f"{example:.1e}", "-", "-", words, "ok" if told else "FAIL"])
    print_table(headings, rows)
    files = len(artifact.manifest.files) + 1
    console().print(
        f"{artifact.tag} {artifact.digest}: {files} files intact, {len(cases)} cases, {artifact.manifest.runtime.kind}",
        markup=False,
    )


def _cells(one: CaseResult) -> list[str]:
    figures = [f"{one.logprob:.1e}", f"{one.kl:.1e}", f"{one.top1:.4f}", f"{one.greedy:.4f}"]
    return [one.name, one.kernels, str(one.rows), str(one.positions), *figures]


def _as_json(
    artifact: Artifact, cases: list[CaseResult], example: float, example_holds: bool, holds: bool
) -> dict[str, Any]:
    return {
        "tag": artifact.tag,
        "digest": artifact.digest,
        "holds": holds,
        "files": len(artifact.manifest.files) + 1,
        "tolerance": artifact.read_json("parity.json")["tolerance"],
        "cases": [vars(one) for one in cases],
        "example": {"max_abs": example if example_holds else None, "holds": example_holds},
    }
