"""`pressroom calibrate text-detect`: thresholds from texts whose authors are known, into a new artifact version."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.export_text_detect import answer_example, local_settings
from pressroom.output import console, identity, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from export.progress import Report
    from export.store import Stored
    from export.text_detect_calibration import CalibrationJob, Corpus
    from models.dna_gpt.detector import DetectorSpec, Mode, Threshold
    from services.text_detection.detection import Detection

_EXAMPLE = """\b
Example:
  pressroom calibrate text-detect --name smollm2-text --human human.jsonl --machine machine.jsonl --fpr 0.01"""
_FILE = "JSON lines with a field `text`, or plain text with an empty line between texts."

Name = Annotated[str, typer.Option(help="The detector: name or name:version.")]
Human = Annotated[Path, typer.Option(exists=True, dir_okay=False, help=f"Texts by people: {_FILE}")]
Machine = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Texts by the generator, as --human.")]
Rate = Annotated[float, typer.Option("--fpr", help="Human texts called machine, at most; 0.01 needs 99 of them.")]
HumanField = Annotated[str, typer.Option(help="The field of --human, where it is JSON lines.")]
MachineField = Annotated[str, typer.Option(help="The field of --machine, where it is JSON lines.")]
ModeName = Annotated[str, typer.Option("--mode", help="white_box, or black_box: the endpoint the settings name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def text_detect(
    name: Name,
    human: Human,
    machine: Machine,
    fpr: Rate,
    human_field: HumanField = "text",
    machine_field: MachineField = "text",
    mode: ModeName = "white_box",
    as_json: AsJson = False,
) -> None:
    """Measure thresholds of every statistic, and store the detector with them as its next version."""
    from export.errors import OptionError
    from models.dna_gpt.detector import MODES, DetectorSpec
    from pressroom.inspect import open_named

    if mode not in MODES:
        raise OptionError(f"--mode {mode!r} is not known", f"choose {' or '.join(MODES)}")
    artifact = open_named(name)
    if artifact.manifest.family != "text-detect":
        raise OptionError(f"--name {artifact.tag} is of family {artifact.manifest.family!r}", "name a detector")
    texts = {"human": _read(human, human_field), "machine": _read(machine, machine_field)}
    with progress_bar() as report:
        spec = DetectorSpec.from_settings(artifact.manifest.settings)
        task = _Task(artifact, spec, mode, fpr)
        stored, thresholds = task.run(texts, {"human": human, "machine": machine}, report)
    print_json(_as_json(stored, thresholds)) if as_json else _show(stored, thresholds)


def register(app: typer.Typer) -> None:
    """Add the verb and its families."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Measure thresholds on texts of known origin."
    )
    group.command("text-detect", epilog=_EXAMPLE)(text_detect)
    app.add_typer(group, name="calibrate", epilog=_EXAMPLE)

    @group.callback()
    def _families() -> None:
        """Measure thresholds on texts of known origin."""


class _Task:
    """One calibration: ask about all texts, measure, store."""

    def __init__(self, artifact: Any, spec: DetectorSpec, mode: Mode, rate: float) -> None:
        self._artifact, self._spec, self._mode, self._rate = artifact, spec, mode, rate

    def run(
        self, texts: dict[str, list[str]], files: dict[str, Path], report: Report
    ) -> tuple[Stored, tuple[Threshold, ...]]:
        from services.text_detection.local import with_detector

        async def work(detection: Detection) -> tuple[Stored, tuple[Threshold, ...]]:
            upstream = detection.asker(self._mode).upstream
            corpora = {side: await self._corpus(detection, files[side], texts[side], report) for side in texts}
            return await self._store(detection, self._job(upstream, **corpora))

        return with_detector(self._spec, local_settings(), work)

    def _job(self, upstream: str, human: Corpus, machine: Corpus) -> CalibrationJob:
        from export.text_detect_calibration import CalibrationJob

        return CalibrationJob(
            rate=self._rate,
            mode=self._mode,
            upstream=upstream,
            regenerations=self._spec.regenerations,
            human=human,
            machine=machine,
        )

    async def _corpus(self, detection: Detection, file: Path, texts: Sequence[str], report: Report) -> Corpus:
        from export.text_detect_calibration import Corpus, Scored
        from services.text_detection.local import ask_all

        found = await ask_all(
            detection,
            texts,
            self._mode,
            self._spec.regenerations,
            lambda done, of: report(f"ask about {file.name}", done, of),
        )
        skipped = Counter[str](str(prepared.refused) for prepared, asked in found if asked is None)
        skipped["incomplete"] = sum(asked is not None and bool(asked.failures) for _, asked in found)
        scored = (
            Scored(prepared.traits, asked.reading.scores())
            for prepared, asked in found
            if asked is not None and not asked.failures
        )
        return Corpus(
            file=file.name,
            sha256=hashlib.sha256("\0".join(texts).encode()).hexdigest(),
            scored=tuple(scored),
            skipped={name: count for name, count in skipped.items() if count},
        )

    async def _store(self, detection: Detection, job: CalibrationJob) -> tuple[Stored, tuple[Threshold, ...]]:
        from export.text_detect_calibration import earlier, measure, store_calibrated

        found = measure(job)
        detection.spec = self._spec.calibrated(found.thresholds)
        documents = [*earlier(self._artifact, job.mode, job.upstream), found.document]
        example = await answer_example(detection)
        return store_calibrated(self._artifact, detection.spec, documents, example), found.thresholds


def _read(file: Path, field: str) -> list[str]:
    """The texts of a file. Raises OptionError naming the line."""
    from export.errors import OptionError

    try:
        content = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"{file.name} is not UTF-8", "convert it first") from None
    if file.suffix not in (".jsonl", ".ndjson"):
        return [part.strip() for part in content.split("\n\n") if part.strip()]
    texts = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            text = json.loads(line)[field] if line.strip() else None
        except (ValueError, KeyError, TypeError):
            text = 0
        if text is not None and not isinstance(text, str):
            raise OptionError(f"{file.name}, line {number}: no JSON object with a text {field!r}", "name the field")
        texts += [text] if text is not None else []
    return texts


def _show(stored: Stored, thresholds: Sequence[Threshold]) -> None:
    console().print(f"{stored.tag}  {stored.digest}", markup=False, soft_wrap=True)
    rows = [
        [
            one.statistic,
            f"{one.threshold:.4g}",
            f"{one.human_threshold:.4g}",
            *(f"{rate.value:.3f} ({rate.low:.3f}-{rate.high:.3f})" for rate in (one.area, one.true_positives)),
            str(one.humans),
            str(one.machines),
        ]
        for one in thresholds
    ]
    print_table(
        ["statistic", "machine above", "human up to", "AUROC", "machine texts found", "humans", "machines"], rows
    )


def _as_json(stored: Stored, thresholds: Sequence[Threshold]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **identity(stored),
        "thresholds": [asdict(one) for one in thresholds],
    }
