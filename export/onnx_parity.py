"""The certificate of a graph that came as a graph: it is computed three ways, which have to agree.

    reference   onnx's own evaluator, in numpy; where that cannot run the graph, onnxruntime without optimisation
    graph       onnxruntime as it serves, all optimisations, one thread: the batch in one pass
    pipeline    the same, every row alone: what a row is answered depends on no other row

Floats hold if |difference| <= atol * unit + rtol * |reference|, unit being the largest magnitude of the output in that
case, at least 1; whole numbers and booleans have to be equal. One breach, or an output that is not finite, fails the
export.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file

from export.artifact import PARITY, Artifact
from export.environment import cpu_flags, versions
from export.errors import ConversionError, ParityError
from export.onnx_cases import Array, Arrays, Case
from export.parity import Difference, Tolerance, compare
from export.runner import named_runner

TOLERANCE = Tolerance(atol=2e-5, rtol=1e-4)  # float32 sums in another order
HALF = Tolerance(atol=2e-3, rtol=1e-2)  # the same in float16
CASES_FILE = "parity.safetensors"
EVALUATOR, PLAIN = "onnx.reference evaluator", "onnxruntime, no optimisation"

Run = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class OnnxResult:
    """One case: its reference outputs, and how far the two other ways are from them."""

    case: Case
    reference: Arrays
    graph: Difference
    pipeline: Difference

    @property
    def holds(self) -> bool:
        return self.graph.holds and self.pipeline.holds


def session(graph: Path, *, optimised: bool = True) -> Run:
    """A function from inputs to outputs. Raises ConversionError if onnxruntime does not take the graph."""
    try:
        return named_runner(graph, optimised=optimised)
    except Exception as fault:  # whatever it is, the caller needs one sentence
        raise ConversionError(f"onnxruntime does not take the graph: {_first_line(fault)}") from None


def reference(model: onnx.ModelProto, graph: Path, smallest: Case, *, evaluator: bool = True) -> tuple[str, Run]:
    """What the others are compared with: its name, and a function from inputs to outputs."""
    if evaluator:
        try:
            run = _evaluator(model)
            run(smallest.inputs)
        except Exception:  # whatever an operator it lacks makes it raise
            evaluator = False
        else:
            return EVALUATOR, run
    return PLAIN, session(graph, optimised=False)


def _evaluator(model: onnx.ModelProto) -> Run:
    running = ReferenceEvaluator(model)
    names = [output.name for output in model.graph.output]

    def run(inputs: Arrays) -> Arrays:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return {name: np.asarray(made) for name, made in zip(names, running.run(None, inputs), strict=True)}

    return run


def served(case: Case, run: Run) -> tuple[Arrays, Arrays]:
    """Outputs of the batch at once, and of its rows one by one.

    Raises ConversionError if the graph does not run, or if an output does not have the case's rows.
    """
    try:
        together = run(case.inputs)
        alone = [run({name: values[i : i + 1] for name, values in case.inputs.items()}) for i in range(case.rows)]
    except Exception as fault:  # onnxruntime's classes have no common ancestor but this
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in case.inputs.items())
        raise ConversionError(
            f"the graph does not run on {shapes}: {_first_line(fault)}",
            "give rows that it takes with --example FILE.npz",
        ) from None
    for name, made in together.items():
        if made.ndim == 0 or len(made) != case.rows:
            raise ConversionError(
                f"output {name!r} has shape {list(made.shape)} for {case.rows} rows: its first axis is not the batch",
                "export the graph with the batch as first axis of every output",
            )
    return together, {name: np.concatenate([one[name] for one in alone]) for name in together}


def check_case(case: Case, expected: Arrays, run: Run) -> OnnxResult:
    """Compare the served session with the reference. Raises ConversionError as `served` does."""
    together, joined = served(case, run)
    return OnnxResult(case, expected, _apart(together, expected), _apart(joined, expected))


def _apart(got: Arrays, expected: Arrays) -> Difference:
    found = [_apart_in_one(values, expected[name]) for name, values in got.items()]
    worst = max(one.max_abs for one in found), max(one.max_rel for one in found)
    return Difference(*worst, all(one.holds for one in found))


def _apart_in_one(got: Array, expected: Array) -> Difference:
    if got.dtype != expected.dtype or got.dtype.kind != "f":
        same = got.dtype == expected.dtype and np.array_equal(got, expected)
        return Difference(0.0, 0.0, True) if same else Difference(float("inf"), float("inf"), False)
    unit = max(1.0, float(np.abs(expected).max(initial=0.0)))
    if not got.size:
        return Difference(0.0, 0.0, got.shape == expected.shape)
    return compare(got, expected.astype(np.float64), unit, HALF if got.dtype == np.float16 else TOLERANCE)


def tolerance_of(results: Sequence[OnnxResult]) -> Tolerance:
    """What the whole artifact is held to: float16's where an output is float16."""
    return HALF if any(v.dtype == np.float16 for r in results for v in r.reference.values()) else TOLERANCE


def require(results: Sequence[OnnxResult], against: str) -> None:
    """Raise ParityError for the first case that does not hold."""
    for result in results:
        if not all(np.isfinite(v).all() for v in result.reference.values() if v.dtype.kind == "f"):
            raise ParityError(
                f"an output is not finite (case {result.case.name}); nothing was stored",
                "give rows that the graph was made for with --example FILE.npz",
            )
        if not result.graph.holds:
            raise ParityError(
                f"parity breach: onnxruntime differs from {against} by {result.graph.max_abs:.3g} "
                f"(case {result.case.name}); nothing was stored",
                "--reference runtime compares with onnxruntime without optimisation instead"
                if against == EVALUATOR
                else "this graph is not safe to serve here; export it with another opset",
            )
        if not result.pipeline.holds:
            raise ParityError(
                f"rows are not independent: a row alone differs from the same row in a batch by "
                f"{result.pipeline.max_abs:.3g} (case {result.case.name}); nothing was stored",
                "requests share batches here; a graph that mixes its rows (or draws at random) cannot be served so",
            )


def certificate(results: Sequence[OnnxResult], against: str, opset: int) -> dict[str, Any]:
    """`parity.json`. Holds no dates and no host names."""
    found = [d for r in results for d in (r.graph, r.pipeline)]
    worst = {"max_abs": max(d.max_abs for d in found), "max_rel": max(d.max_rel for d in found)}
    return {
        "format_version": 1,
        "verdict": "ok" if all(d.holds for d in found) else "breach",
        **worst,
        "outputs": dict.fromkeys(results[0].reference, worst),
        "unit": "the output's largest magnitude in the case, at least 1",
        "tolerance": asdict(tolerance_of(results)),
        "stages": [against, "onnxruntime, CPU, one thread", "the same, every row alone"],
        "runtime": "onnxruntime",
        "opset": opset,
        "versions": versions(),
        "cpu": cpu_flags(),
        "cases": [
            {
                "name": r.case.name,
                "batch": r.case.rows,
                "shapes": {name: list(values.shape) for name, values in r.case.inputs.items()},
                "graph": r.graph.as_json(),
                "pipeline": r.pipeline.as_json(),
            }
            for r in results
        ],
    }


def recheck(artifact: Artifact) -> list[OnnxResult]:
    """Repeat every recorded case of a stored artifact against its recorded outputs."""
    arrays, run = load_file(artifact.file(CASES_FILE)), session(artifact.file(artifact.manifest.runtime.file))
    found = []
    for entry in artifact.read_json(PARITY)["cases"]:
        name = entry["name"]
        inputs, outputs = (
            {key.removeprefix(start): values for key, values in arrays.items() if key.startswith(start)}
            for start in (f"{name}/in/", f"{name}/out/")
        )
        found.append(check_case(Case(name, inputs), outputs, run))
    return found


def _first_line(fault: Exception) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]
