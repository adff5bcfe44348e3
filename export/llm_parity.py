"""The certificate of a language model: the exported graph against transformers, position by position.

The graph is fed what the reference said: prompts in chunks, then its greedy tokens one by one, all rows of a case at
once over one cache, as the service decodes. At every position are compared

    logprob   largest difference among the reference's likeliest tokens (nats)
    kl        mean Kullback-Leibler divergence, reference to graph (nats)
    top1      share of positions where both find the same token likeliest
    greedy    the same among generated tokens: 1 means that greedy answers are equal

and perplexity on a held text. A graph that runs with and without kernels of ours is checked both ways. Bounds belong to
the precision (`BOUNDS`) and hold for all cases together; a breach fails the export.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from export.artifact import PARITY, Artifact
from export.environment import cpu_flags, versions
from export.errors import ParityError
from export.llm_cases import Case, Row, load_case, log_softmax
from export.llm_graph import GRAPH
from export.llm_quality import Quality
from export.llm_runner import GraphRunner, Logits
from models.llm.spec import LanguageModelSpec, Precision
from models.packed.library import gains_by_kernels, is_built, needs_kernels

CASES_FILE = "parity.safetensors"
MEANS = ("kl", "top1", "greedy")


@dataclass(frozen=True)
class Bounds:
    """What a precision may cost. logprob None: not bounded; tie: a choice this close to the best counts as it."""

    logprob: float | None
    kl: float
    top1: float
    greedy: float
    perplexity_ratio: float
    tie: float = 0.0


BOUNDS: dict[Precision, Bounds] = {
    "fp32": Bounds(logprob=1e-3, kl=1e-6, top1=1.0, greedy=1.0, perplexity_ratio=1.001, tie=1e-3),
    "int8": Bounds(logprob=None, kl=0.05, top1=0.85, greedy=0.85, perplexity_ratio=1.05),
    "int4": Bounds(logprob=None, kl=0.5, top1=0.5, greedy=0.5, perplexity_ratio=1.4),
}
BOUNDS["packed-2:4"] = BOUNDS["fp32"]  # the same numbers, stored otherwise


@dataclass(frozen=True)
class CaseResult:
    """One case: how many rows and positions, and the four figures.

    kernels  "pressroom" where layers ran by kernels of ours, "onnxruntime" where by its own
    """

    name: str
    kernels: str
    rows: int
    positions: int
    logprob: float
    kl: float
    top1: float
    greedy: float


class Seen(NamedTuple):
    """A graph's opinion at P positions: log-probabilities float32 [P, KEPT] of the tokens that were kept of the
    reference, and the token it finds likeliest, int64 [P]."""

    logprobs: npt.NDArray[np.float32]
    chosen: npt.NDArray[np.int64]


def check(cases: Sequence[Case], graph: Path, spec: LanguageModelSpec) -> list[CaseResult]:
    """Run every case, each way this machine can, and compare."""
    ways = [True, False] if gains_by_kernels(graph) and is_built() else [needs_kernels(graph)]
    return [check_case(case, graph, spec, kernels) for kernels in ways for case in cases]


def check_case(case: Case, graph: Path, spec: LanguageModelSpec, kernels: bool) -> CaseResult:
    """Run a case and compare. kernels: by those of ours, where the graph has use for them."""
    bounds = BOUNDS[spec.precision]
    ran = _run(case, graph, spec, kernels)
    found = [_compare(row, seen, bounds.tie) for row, seen in zip(case.rows, ran, strict=True)]
    weights = [len(row.scores.tokens) for row in case.rows]
    mean = [float(np.average([one[i] for one in found], weights=weights)) for i in (1, 2)]
    greedy = float(np.mean([one[3] for one in found]))
    return CaseResult(
        case.name,
        "pressroom" if kernels else "onnxruntime",
        len(case.rows),
        sum(weights),
        _short(max(one[0] for one in found)),
        _short(mean[0]),
        round(mean[1], 4),
        round(greedy, 4),
    )


def totals(results: Sequence[CaseResult]) -> CaseResult:
    """All cases as one: the largest difference, and means over all positions."""
    weights = [one.positions for one in results]
    kl, top1, greedy = (float(np.average([getattr(r, name) for r in results], weights=weights)) for name in MEANS)
    rows, logprob = sum(one.rows for one in results), max(one.logprob for one in results)
    ways = ", ".join(dict.fromkeys(one.kernels for one in results))
    return CaseResult("all", ways, rows, sum(weights), logprob, _short(kl), round(top1, 4), round(greedy, 4))


def breach(result: CaseResult, bounds: Bounds) -> str | None:
    """The first bound that does not hold, in words; None where all hold."""
    if bounds.logprob is not None and not result.logprob <= bounds.logprob:
        return f"log-probabilities differ by {result.logprob:.3g}, bound {bounds.logprob:g}"
    if not result.kl <= bounds.kl:
        return f"mean divergence is {result.kl:.3g} nats, bound {bounds.kl:g}"
    for what in ("top1", "greedy"):
        found, least = getattr(result, what), getattr(bounds, what)
        if not found >= least:
            return f"{what}: {found:.3f} of the tokens agree, at least {least:g} must"
    return None


def require(results: Sequence[CaseResult], quality: Quality, precision: Precision) -> None:
    """Raise ParityError for the first breach."""
    bounds = BOUNDS[precision]
    what = breach(totals(results), bounds)
    if what is None and not quality.ratio <= bounds.perplexity_ratio:
        change = f"perplexity on {quality.text} went from {quality.reference:.4g} to {quality.graph:.4g}"
        what = f"{change}, {quality.ratio:.3f} times as much, bound {bounds.perplexity_ratio:g}"
    if what is not None:
        hint = "report it with the model's type" if precision == "fp32" else "choose a higher precision: int8, fp32"
        raise ParityError(f"parity breach ({precision}): {what}; nothing was stored", hint)


def certificate(results: Sequence[CaseResult], quality: Quality, spec: LanguageModelSpec, opset: int) -> dict[str, Any]:
    """`parity.json`. Holds no dates and no host names."""
    total = totals(results)
    return {
        "format_version": 1,
        "verdict": "ok",
        "max_abs": total.logprob,
        **{name: getattr(total, name) for name in MEANS},
        "unit": "log-probabilities, nats",
        "tolerance": asdict(BOUNDS[spec.precision]),
        "stages": ["transformers, eager, float32, the same weights", f"ONNX graph in onnxruntime, {spec.precision}"],
        "runtime": "ONNX graph in onnxruntime",
        "opset": opset,
        "versions": versions() | _library_versions(),
        "cpu": cpu_flags(),
        "cases": [asdict(one) for one in results],
        "perplexity": quality.as_json(),
    }


def recheck(artifact: Artifact, spec: LanguageModelSpec) -> list[CaseResult]:
    """Repeat every recorded case of a stored artifact."""
    arrays = load_file(artifact.file(CASES_FILE))
    rows = {entry["name"]: entry["rows"] for entry in artifact.read_json(PARITY)["cases"]}
    return check([load_case(name, count, arrays) for name, count in rows.items()], artifact.file(GRAPH), spec)


def _run(case: Case, graph: Path, spec: LanguageModelSpec, kernels: bool) -> list[Seen]:
    """What the graph said after every token but the last, of each row."""
    capacity = max(len(row.sequence) for row in case.rows)
    runner = GraphRunner(graph, spec, rows=len(case.rows), capacity=capacity, kernels=kernels)
    found: list[list[Seen]] = [[] for _ in case.rows]
    for index, row in enumerate(case.rows):
        for logits in runner.prefill(index, row.prompt):
            _see(found[index], logits, row)
    for tokens in zip(*(row.answer[:-1] for row in case.rows), strict=True):
        for seen, logits, row in zip(found, runner.step(tokens), case.rows, strict=True):
            _see(seen, logits[None], row)
    return [Seen(*(np.concatenate(parts) for parts in zip(*seen, strict=True))) for seen in found]


def _see(seen: list[Seen], logits: Logits, row: Row) -> None:
    """Keep of the next positions' logits [n, V] what is compared."""
    at = sum(len(one.chosen) for one in seen)
    kept = row.scores.tokens[at : at + len(logits)]
    seen.append(Seen(np.take_along_axis(log_softmax(logits), kept, axis=1), logits.argmax(axis=1)))


def _compare(row: Row, seen: Seen, tie: float) -> tuple[float, float, float, float]:
    """(largest difference, mean divergence, share of equal choices, share among generated tokens)."""
    reference, graph = row.scores.logprobs, seen.logprobs
    if not np.isfinite(graph).all():
        return float("inf"), float("inf"), 0.0, 0.0
    apart = float(np.abs(graph - reference).max())
    near = reference >= reference[:, :1] - tie
    equal = ((row.scores.tokens == seen.chosen[:, None]) & near).any(axis=1)
    return apart, _divergence(reference, graph), float(equal.mean()), float(equal[-len(row.answer) :].mean())


def _divergence(reference: npt.NDArray[np.float32], graph: npt.NDArray[np.float32]) -> float:
    """Mean over positions; tokens that were not kept count as one."""
    p, q = (np.exp(one, dtype=np.float64) for one in (reference, graph))
    rest_p, rest_q = (np.maximum(1 - one.sum(axis=1), 1e-12) for one in (p, q))
    kept = (p * (reference.astype(np.float64) - graph)).sum(axis=1)
    return float(np.maximum(kept + rest_p * np.log(rest_p / rest_q), 0).mean())


def _library_versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("transformers", "tokenizers", "onnxruntime-genai")}


def _short(value: float) -> float:
    """Three significant digits: a certificate is read by people."""
    return float(f"{value:.2e}")
