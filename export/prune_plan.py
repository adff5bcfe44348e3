"""What a pruning run is asked to do, checked before anything is read.

PATTERN            METHODS                        leaves
unstructured       magnitude wanda ria surgeon    zeros anywhere
N:M                magnitude wanda ria surgeon    at most N nonzero of every M inputs
structured         magnitude surgeon              whole rows and columns zero, shapes unchanged (the paper's)
channels           magnitude wanda ria surgeon    fewer MLP channels (and attention groups), smaller matrices
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.errors import ExportError, OptionError
from models.pruning.channel_permutation import Search
from models.pruning.errors import PruningError
from models.pruning.layerwise import Recipe
from models.pruning.llm_surgeon.shots import STRUCTURES, WEIGHTS, Parts, Surgeon
from models.pruning.llm_surgeon.update import Correction
from models.pruning.pattern import NM, Pattern, parse_pattern
from models.pruning.ria import POWER
from models.pruning.scoring import score_named

STRUCTURED, CHANNELS, SURGEON = "structured", "channels", "surgeon"
COMPUTE = ("auto", "float32", "bfloat16")
METHODS = ("magnitude", "wanda", "ria", SURGEON)
FEW_TOKENS_DAMPING = 0.1  # the paper's 0.01 goes with 128 long sequences; with few, corrections follow their noise
PASSES = 3  # over all slots when channels are permuted: the second and third keep a tenth more of what the first gains
TOGETHER = 512  # weights the surgeon corrects as one system: cost grows with its cube


@dataclass(frozen=True, kw_only=True)
class PruneJob:
    """A run. sparsity: share of weights (or MLP channels) removed; an N:M pattern says its own."""

    model: str
    out: Path
    method: str = "ria"
    pattern: str = "2:4"
    sparsity: float | None = None
    calibration: Path | None = None
    evaluation: Path | None = None
    windows: int = 32  # calibration sequences
    tokens: int = 512  # tokens of a sequence, calibration and evaluation
    evaluation_windows: int = 24
    seed: int = 0
    resume: bool = False
    memory_cap: int | None = None  # bytes
    permute: bool = False
    power: float = POWER
    per_output: bool | None = None  # None = as the method's paper compares
    shots: int = 1
    damping: float = FEW_TOKENS_DAMPING  # surgeon: share of the curvature's mean diagonal
    kv_groups: int = 0
    compute: str = "auto"  # precision of forward passes, one of COMPUTE; the surgeon's curvature is always float32
    speed: bool = True

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise OptionError(f"method {self.method!r} is not known", f"choose {', '.join(METHODS)}")
        if self.pattern == STRUCTURED and self.method not in ("magnitude", SURGEON):
            hint = "choose surgeon or magnitude, or --pattern channels"
            raise OptionError(f"{self.method} gives rows and columns no comparable cost", hint)
        if self.permute and (self.method == SURGEON or not self.is_nm):
            raise OptionError("--permute reorders inputs for an N:M pattern by scores", "use it with ria and 2:4")
        if self.compute not in COMPUTE:
            raise OptionError(f"compute {self.compute!r} is not known", f"choose {', '.join(COMPUTE)}")
        for name in ("windows", "tokens", "evaluation_windows"):
            if getattr(self, name) < (2 if name == "tokens" else 1):
                raise OptionError(f"{name}: got {getattr(self, name)}, expected a positive number", "")
        if not 0 < self.damping < 10:
            raise OptionError(f"damping: got {self.damping}, expected a share above 0", "0.1 suits few windows")
        if self.reads_text and self.calibration is None:
            raise OptionError(f"{self.method} needs a calibration text", "name one with --calibration FILE")
        with option_refusals():
            _ = self.recipe if self.is_layerwise else None, self.surgeon if self.method == SURGEON else None

    @property
    def is_nm(self) -> bool:
        return ":" in self.pattern

    @property
    def is_layerwise(self) -> bool:
        """Masks by score, one layer after another."""
        return self.method != SURGEON and self.pattern not in (STRUCTURED, CHANNELS)

    @property
    def reads_text(self) -> bool:
        return self.method == SURGEON or score_named(self.method).reads_activations

    @property
    def share(self) -> float:
        """Sparsity asked for; half where nothing was said."""
        if self.is_nm:
            found = self.nm
            if self.sparsity is not None and self.method != SURGEON and self.sparsity != found.sparsity:
                message = f"sparsity {self.sparsity} contradicts {found}, which removes {found.sparsity:g}"
                raise OptionError(message, "leave --sparsity away with an N:M pattern")
            return found.sparsity if self.sparsity is None else self.sparsity
        return 0.5 if self.sparsity is None else self.sparsity

    @property
    def nm(self) -> NM:
        found = parse_pattern(self.pattern, 0.5, per_output=False)
        assert isinstance(found, NM)
        return found

    @property
    def recipe(self) -> Recipe:
        search = Search(passes=PASSES) if self.permute else None
        return Recipe(method=self.method, pattern=self.rule, power=self.power, search=search)

    @property
    def rule(self) -> Pattern:
        """The rule every matrix must keep (unstructured and N:M)."""
        per_output = self.per_output if self.per_output is not None else score_named(self.method).per_output
        return parse_pattern(self.pattern, self.share, per_output=per_output)

    @property
    def surgeon(self) -> Surgeon:
        parts: Parts = self.nm if self.is_nm else STRUCTURES if self.pattern == STRUCTURED else WEIGHTS
        correction = Correction(together=0 if parts == STRUCTURES else TOGETHER)
        return Surgeon(
            sparsity=self.share,
            parts=parts,
            shots=self.shots,
            damping_inputs=self.damping,
            damping_outputs=self.damping,
            correction=correction,
        )

    def settings(self) -> dict[str, Any]:
        """What the result depends on, beside the files."""
        names = ["method", "pattern", "permute", "power", "per_output", "shots", "damping", "kv_groups"]
        names += ["windows", "tokens", "seed"]
        return {name: getattr(self, name) for name in names} | {"sparsity": self.share}


@contextmanager
def option_refusals() -> Iterator[None]:
    """What pruning refuses about a setting is misuse of the command."""
    try:
        yield
    except PruningError as error:
        raise OptionError(_message(error), error.remedy) from error


@contextmanager
def findings() -> Iterator[None]:
    """What pruning refuses about a matrix is a finding."""
    try:
        yield
    except PruningError as error:
        raise ExportError(_message(error), error.remedy) from error


def _message(error: PruningError) -> str:
    return f"{error.field}: got {error.value}, expected {error.expected}"
