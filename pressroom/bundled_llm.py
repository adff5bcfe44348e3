"""The embedded language model twice: as it is, and with half of its weights gone. Pressed once, as `bundled` does.

    smollm2            SmolLM2-135M-Instruct
    smollm2-ria-2-4    the same, pruned with RIA to 2:4 with permuted channels, its receipt inside

Calibration and evaluation are short here, so that a first run takes minutes; docs/pruning.md has the full protocol.
Another folder may take the embedded model's place; the names stay, so that one recipe replaces the other.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from export.environment import versions
from export.progress import Report, silent
from export.store import Stored
from pressroom import stamps
from pressroom.bundled import DATA, ROOT

DENSE, PRUNED = "smollm2", "smollm2-ria-2-4"
CALIBRATION = DATA / "text" / "wikitext2_calibration.txt"
EVALUATION = DATA / "text" / "wikitext2_eval.txt"
_SOURCES = ("export/llm*.py", "export/prune*.py", "models/llm/*.py", "models/pruning/**/*.py")
_LIBRARIES = ("transformers", "tokenizers", "onnxruntime-genai", "scipy")


@dataclass(frozen=True)
class Effort:
    """How much text the pruning learns from and all is measured on: windows of `tokens` tokens."""

    calibration: int = 8
    evaluation: int = 6
    tokens: int = 256
    speed: bool = True


FULL = Effort()


def press_twins(report: Report = silent, effort: Effort = FULL, model: Path | None = None) -> list[Stored]:
    """Press (or find pressed) both, dense first. model: a folder instead of the embedded model."""
    recipes = {name: _recipe(effort, model) for name in (DENSE, PRUNED)}
    found = {name: stamps.up_to_date(name, made_of) for name, made_of in recipes.items()}
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        twins = _Twins(Path(scratch), model, effort, report)
        for name, press in ((DENSE, twins.press_dense), (PRUNED, twins.press_pruned)):
            if found[name] is None:
                found[name] = stored = press()
                stamps.remember(stored, recipes[name])
    return [stored for stored in found.values() if stored is not None]


@dataclass(frozen=True)
class _Twins:
    """One run. scratch: where the embedded model is unpacked, once for both."""

    scratch: Path
    model: Path | None
    effort: Effort
    report: Report

    def press_dense(self) -> Stored:
        from export.llm_source import EMBEDDED

        return self._press(EMBEDDED if self.model is None else str(self.model), DENSE)

    def press_pruned(self) -> Stored:
        from export.prune import prune
        from export.prune_plan import PruneJob
        from export.runner import one_thread

        out = self.scratch / PRUNED
        job = PruneJob(
            model=str(self._folder()),
            out=out,
            method="ria",
            pattern="2:4",
            permute=True,
            calibration=CALIBRATION,
            evaluation=EVALUATION,
            windows=self.effort.calibration,
            tokens=self.effort.tokens,
            evaluation_windows=self.effort.evaluation,
            speed=self.effort.speed,
        )
        with one_thread():  # the same sums on every machine, and no threads that wait for each other on a busy one
            prune(job, self.report)
        return self._press(str(out), PRUNED)

    def _press(self, model: str, name: str) -> Stored:
        from export.llm import LlmJob, press

        windows, tokens = self.effort.evaluation, self.effort.tokens
        job = LlmJob(model=model, name=name, evaluation=EVALUATION, windows=windows, tokens=tokens)
        return press(job, self.report, self.scratch).stored

    def _folder(self) -> Path:
        """What is pruned; the embedded model under the name it is known by, which the receipt records."""
        from export.llm_source import EMBEDDED, open_model

        if self.model is not None:
            return self.model
        named = self.scratch / EMBEDDED
        if not named.exists():
            named.symlink_to(open_model(EMBEDDED, self.scratch, self.report).path)
        return named


def _recipe(effort: Effort, model: Path | None) -> str:
    """Digest of all both depend on."""
    from export.llm_source import embedded_file

    weights = [embedded_file()] if model is None else sorted(model.glob("*.safetensors"))
    sources = [path for pattern in _SOURCES for path in sorted(ROOT.glob(pattern))]
    libraries = versions() | {name: version(name) for name in _LIBRARIES}
    return stamps.recipe([*weights, CALIBRATION, EVALUATION, *sources], {"effort": asdict(effort), **libraries})
