"""The measurements: every contender does the same work, one after another, round after round.

A round has six tasks. Prompts are cut from `data/text`, differ in every task and round, and are the same for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import getloadavg
from pathlib import Path
from typing import Any

from benchmarks.cpu import machine_busy_seconds
from benchmarks.llm_contenders import Contender
from benchmarks.llm_memory import Reader
from benchmarks.llm_process import PeerError, PeerProcess
from benchmarks.server import ROOT

TEXT = ROOT / "data" / "text" / "wikitext2_eval.txt"
PROMPT = 40  # tokens
TOGETHER = 8
MIXED = (8, 16, 24, 40, 64, 96, 128, 192)  # tokens of eight unequal prompts
LOAD_TOKENS = 600  # of an answer that is in the way while first tokens are timed: longer than that takes
TASKS = ("prompt", "alone", "eight", "mixed", "idle", "loaded")

Prompt = list[int]


@dataclass(frozen=True)
class Plan:
    """How much is measured. tokens: of every answer; probes: first tokens timed a round, idle and loaded each."""

    rounds: int = 3
    tokens: int = 48
    probes: int = 5


@dataclass
class Campaign:
    """Results so far: by contender and task, one entry a round.

    versions   of every contender that started
    missing    contender -> why it was not measured
    bandwidth  bytes a second one thread read, one entry a round
    others     cores that other programs used meanwhile, one entry a measurement of CPU time
    """

    plan: Plan
    results: dict[str, dict[str, list[dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    bandwidth: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    load: float = field(default_factory=lambda: getloadavg()[0])

    def run(
        self, running: Mapping[str, tuple[Contender, PeerProcess]], prompts: Prompts, report: Callable[[str], None]
    ) -> None:
        """All rounds. A contender that fails is left out from then on, and named in `missing`."""
        reader = Reader()
        left = dict(running)
        for round_ in range(-1, self.plan.rounds):  # the first one warms everything up and is forgotten
            self.bandwidth += [reader.bytes_per_second()] * (round_ >= 0)
            for task in TASKS:
                work = self.task(task, prompts, warm=round_ < 0)
                for name in _turned([name for name in left if takes(left[name][0], task)], round_):
                    report(f"{name}: {task}")
                    busy = machine_busy_seconds()
                    try:
                        answer = left[name][1].ask(work)
                    except PeerError as error:
                        self.missing[name] = str(error)
                        del left[name]
                        continue
                    if round_ >= 0:
                        self._keep(name, task, answer, machine_busy_seconds() - busy)

    def _keep(self, name: str, task: str, answer: dict[str, Any], busy: float) -> None:
        self.results[name][task].append(answer)
        if "cpu" in answer:
            self.others.append(max(0.0, busy - answer["cpu"]) / answer["seconds"])

    def task(self, name: str, prompts: Prompts, *, warm: bool) -> dict[str, Any]:
        """What to send to a worker."""
        count = 8 if warm else self.plan.tokens
        probes = 1 if warm else self.plan.probes
        match name:
            case "prompt":
                return {"do": "generate", "prompts": [prompts.take(PROMPT)], "count": 1}
            case "alone":
                return {"do": "generate", "prompts": [prompts.take(PROMPT)], "count": count}
            case "eight":
                return {"do": "generate", "prompts": [prompts.take(PROMPT) for _ in range(TOGETHER)], "count": count}
            case "mixed":
                return {"do": "generate", "prompts": [prompts.take(length) for length in MIXED], "count": count}
        load = [prompts.take(PROMPT) for _ in range(TOGETHER)] if name == "loaded" else []
        timed = [prompts.take(PROMPT) for _ in range(probes)]
        return {"do": "first", "probes": timed, "load": load, "count": LOAD_TOKENS}


def measurements(plan: Plan, chosen: Iterable[Contender]) -> int:
    """How many there will be, for a progress bar."""
    return (plan.rounds + 1) * sum(takes(contender, task) for contender in chosen for task in TASKS)


def takes(contender: Contender, task: str) -> bool:
    """Whether a contender does this task."""
    match task:
        case "prompt" | "alone":
            return contender.alone
        case "eight":
            return bool(contender.together)
        case "mixed":
            return contender.together == "continuous"
        case "idle":
            return contender.alone
    return contender.streams and contender.alone


class Prompts:
    """Windows of a text's tokens, one after another, none twice until the text ends."""

    def __init__(self, tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        library = Tokenizer.from_file(str(tokenizer))
        self._tokens: list[int] = library.encode(TEXT.read_text(), add_special_tokens=False).ids
        self._at = 0

    def take(self, length: int) -> Prompt:
        """The next `length` tokens."""
        if self._at + length > len(self._tokens):
            self._at = 0
        found = self._tokens[self._at : self._at + length]
        self._at += length
        return found


def _turned(names: list[str], by: int) -> Iterator[str]:
    """The same names, another one first each round: nobody is always measured after the same neighbour."""
    start = by % len(names) if names else 0
    yield from names[start:] + names[:start]
