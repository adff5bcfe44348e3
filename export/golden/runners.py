"""Which code answers a golden case: one runner module a system, imported when its first case comes.

A runner module offers `run(case) -> list[OutputResult]`, one result an expected output. A new system adds its module
beside `forecast.py` and one line to RUNNERS.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from export.golden.case import GoldenCase, read_case
from export.golden.compare import OutputResult

RUNNERS: dict[str, str] = {  # system as the case names it, lower case -> runner module
    "itransformer": "export.golden.forecast",
    "card": "export.golden.forecast",
    "lift": "export.golden.plugins",
    "arm": "export.golden.plugins",
    "clipself": "export.golden.clipself",
    "motor": "export.golden.motor",
    "ria": "export.golden.pruning",
    "channel_permutation": "export.golden.pruning",
    "llm_surgeon": "export.golden.surgeon",
    "balance_marking": "export.golden.balance_marking",
    "dna_gpt": "export.golden.dna_gpt",
}


def run_case(path: Path) -> tuple[str, list[OutputResult]]:
    """Read and run one case: its system and its results, never empty.

    What goes wrong becomes a result with verdict "error", so that one broken case does not hide the others.
    """
    system = "?"
    try:
        case = read_case(path)
        system = case.system
        return system, _answers(case)
    except Exception as error:  # a verifier reports whatever a case does to the code
        return system, [OutputResult(output="-", verdict="error", detail=_sentence(error))]


def _answers(case: GoldenCase) -> list[OutputResult]:
    if case.system not in RUNNERS:
        known = ", ".join(sorted(RUNNERS))
        detail = f'no code here answers system "{case.system}" (known: {known})'
        return [OutputResult(output="-", verdict="unsupported", detail=detail)]
    results: list[OutputResult] = import_module(RUNNERS[case.system]).run(case)
    return results or [OutputResult(output="-", verdict="error", detail="the case holds no expected output")]


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
