"""Watermarks through the served routes: messages that come back, false alarms, what it all costs.

    python -m benchmarks.watermark [--quick] [--fresh] [--generator NAME] [--json FILE] [--write-docs]

Presses SmolLM2 (int8) and a scheme for it into the benchmarks' own store, unless a generator of that store is named.
About twenty-five minutes of CPU; finished parts are kept in out/benchmarks/watermark, and a stopped run goes on there.
Exit status: 0 every promise holds, 1 one does not, 2 misuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from benchmarks.command import run
from benchmarks.report import DOCS, replace_measured
from benchmarks.server import HOME, use_own_store
from benchmarks.watermark_cost import Cost, measure
from benchmarks.watermark_page import Measured, page
from benchmarks.watermark_rates import FalseAlarms, Recovery, WrongKeys, alarm, misread, recover
from benchmarks.watermark_served import served, write_keys
from benchmarks.watermark_texts import human_corpora

GENERATOR, SCHEME = "smollm2-int8", "smollm2-mark"
KEYS = ("first-key", "second-key", "third-key")
WRONG_KEYS = tuple(f"wrong-key-{at}" for at in range(16))
_SAY = Console(stderr=True)
P = TypeVar("P", Recovery, Cost, FalseAlarms, WrongKeys)


def main(
    generator: Annotated[str, typer.Option(help="A language model of the benchmarks' store.")] = GENERATOR,
    rounds: Annotated[int, typer.Option(min=1, help="Marked texts a prompt; rounds of cost are five.")] = 2,
    fresh: Annotated[bool, typer.Option(help="Measure finished parts again.")] = False,
    quick: Annotated[bool, typer.Option(help="Few texts, one round: is it alive, roughly how good.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    write_docs: Annotated[bool, typer.Option(help="Write the measured part of docs/watermark.md.")] = False,
) -> None:
    """Measure watermarks."""
    use_own_store()
    tag = _pressed(generator, fresh)
    keys = write_keys(Path("out/benchmarks/watermark-keys.toml"), KEYS)
    corpora = human_corpora(12 if quick else 120)
    human = [text for corpus in corpora[:3] for text in corpus.texts]
    kept = Kept(tag, "quick" if quick else f"{rounds}", fresh)
    with served(generator, SCHEME, keys) as running:
        recovery = kept.part(Recovery, lambda: recover(running, human, 1 if quick else rounds))
        texts = [one["text"] for one in recovery.marked]
        cost = kept.part(Cost, lambda: measure(running, texts, KEYS[0], 1 if quick else 5))
        alarms = kept.part(FalseAlarms, lambda: alarm(running, corpora if not quick else corpora[3:], recovery, KEYS))
    others = write_keys(keys.with_name("watermark-wrong-keys.toml"), WRONG_KEYS)
    with served(generator, SCHEME, others) as running:
        some = WRONG_KEYS[:2] if quick else WRONG_KEYS
        wrong = kept.part(WrongKeys, lambda: misread(running, recovery, some))
    measured = Measured(*_strength(), recovery, alarms, cost, wrong)
    _report(measured, json_file, write_docs)


@dataclass(frozen=True)
class Kept:
    """Finished parts on disk. tag: of the scheme; size: which kind of run they belong to."""

    tag: str
    size: str
    fresh: bool

    def part(self, kind: type[P], make: Callable[[], P]) -> P:
        """A part, from disk if it was measured with this scheme and program version before."""
        name = f"{self.tag.replace(':', '-')}-{self.size}-{kind.__name__.lower()}.json"
        file = HOME.parent / "watermark" / name
        if file.exists() and not self.fresh:
            _SAY.print(f"{kind.__name__}: as kept in {file.name}")
            return kind(**json.loads(file.read_text()))
        _SAY.print(f"{kind.__name__}: measured now")
        made = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(made), indent=1))
        return kind(**json.loads(file.read_text()))


def _report(measured: Measured, json_file: Path | None, write_docs: bool) -> None:
    verdicts = measured.verdicts()
    print(page(measured))
    for verdict in verdicts:
        print(verdict.line())
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(measured), indent=1))
    if write_docs:
        replace_measured(DOCS / "watermark.md", "watermark", page(measured))
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)


def _pressed(generator: str, fresh: bool) -> str:
    """The scheme's tag, pressed with everything it needs if it is not there."""
    from export.artifact import open_artifact, stored_versions
    from export.llm import LlmJob
    from export.llm import press as press_llm
    from export.watermark import WatermarkJob, press

    if generator not in stored_versions():
        if generator != GENERATOR:
            raise typer.BadParameter(f"{generator!r} is not in the benchmarks' store", param_hint="--generator")
        _SAY.print("pressing SmolLM2")
        press_llm(LlmJob(model="smollm2", name=generator, precision="int8"))
    if SCHEME in stored_versions() and not fresh:
        return open_artifact(SCHEME).tag
    _SAY.print("pressing the scheme")
    return press(WatermarkJob(generator=generator, name=SCHEME)).stored.tag


def _strength() -> tuple[float, float]:
    """delta and reach of the scheme."""
    from export.artifact import open_artifact

    scheme = open_artifact(SCHEME).manifest.settings["scheme"]
    return float(scheme["delta"]), float(scheme["reach"])


if __name__ == "__main__":
    run(main, "python -m benchmarks.watermark --quick")
