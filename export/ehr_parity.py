"""MOTOR's parity certificate: three ways from a record to its hazards, compared on the cases of `export.ehr_cases`.

    reference   the official weights in torch, eager, float32; every patient alone, unpadded, the whole history
    graph       the exported graph in onnxruntime, CPU, one thread; the patients of a case as one padded batch
    pipeline    a raw request -> reading -> positions -> cut at the reach -> padded -> graph -> task vectors

Compared are representations and log2 of the hazards of every pretraining task; -inf has to meet -inf. And the
prefix-invariance self-test (`models.motor.invariance`): what comes later must not matter. One breach fails the export.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from export.ehr_cases import EhrCase
from export.environment import cpu_flags, versions
from export.errors import ParityError
from export.parity import Difference, Tolerance
from models.motor import invariance
from models.motor.curves import Array, log2_hazards
from models.motor.inputs import Tensors, serving_tensors, to_tensors
from models.motor.record import Reading, read_history
from models.motor.request import read_request
from models.motor.spec import EhrSpec
from models.motor.vocabulary import Position

TOLERANCE = Tolerance(atol=5e-5, rtol=1e-4)  # float32 sums in another order; measured: up to 4e-6
CASES_FILE, CASES_JSON, HEAD_FILE = "parity.safetensors", "cases.json", "head.safetensors"
OUTPUTS = ("representation", "log2_hazard")
ENDLESS = 2**31

Made = dict[str, npt.NDArray[Any]]


class GraphRunner:
    """The exported graph, on one thread: tensors in, representation [B, D] and features [B, b, r] out."""

    def __init__(self, graph: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def __call__(self, tensors: Tensors) -> Made:
        return dict(zip(self._outputs, self._session.run(self._outputs, tensors), strict=True))


@dataclass(frozen=True, kw_only=True)
class Head:
    """The pretraining head: weight [t, r], bias [t, b]."""

    weight: Array
    bias: Array

    def outputs(self, made: Made) -> Made:
        """Graph outputs -> certified outputs, a row a patient: log2_hazard [B, t, b]."""
        hazards = [log2_hazards(features, self.weight, self.bias) for features in made["features"]]
        return {"representation": made["representation"], "log2_hazard": np.stack(hazards)}


@dataclass(frozen=True, kw_only=True)
class EhrResult:
    """One case: its reference outputs and how far the two other ways are from them."""

    case: EhrCase
    patients: int
    longest: int
    reference: Made
    graph: Difference
    pipeline: Difference | None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Everything a case is run with. whole: reading without a cut at the reach."""

    reading: Reading
    whole: Reading
    spec: EhrSpec
    head: Head


def whole(reading: Reading) -> Reading:
    """The same reading, without a cut at the reach."""
    return Reading(**{**vars(reading), "reach": 0, "limit": ENDLESS})


def positions_of(request: dict[str, Any], reading: Reading) -> list[list[Position]]:
    """The positions of every patient of a raw request."""
    asked = read_request(request, max_patients=ENDLESS)
    return [read_history(p.record, reading, p.at, strict=asked.strict, field=p.field).positions for p in asked.patients]


def case_positions(case: EhrCase, reading: Reading) -> list[list[Position]]:
    """The positions of every patient of a case."""
    if case.positions is not None:
        return case.positions
    assert case.request is not None
    return positions_of(case.request, reading)


def check_case(case: EhrCase, reference: Made, run: GraphRunner, checked: Checked) -> EhrResult:
    """Compare graph and pipeline with the reference."""
    patients = case_positions(case, checked.whole)
    graph = checked.head.outputs(run(padded(patients, checked.spec)))
    served = None
    if case.request is not None:
        alone = [run(serving_tensors(p, aged=checked.spec.aged)) for p in positions_of(case.request, checked.reading)]
        joined = {name: np.concatenate([made[name] for made in alone]) for name in alone[0]}
        served = compare(checked.head.outputs(joined), reference)
    return EhrResult(
        case=case,
        patients=len(patients),
        longest=max(map(len, patients)),
        reference=reference,
        graph=compare(graph, reference),
        pipeline=served,
    )


def padded(patients: Sequence[Sequence[Position]], spec: EhrSpec) -> Tensors:
    """Patients as one batch, padded to the longest and widest of them."""
    length, bag = max(map(len, patients)), max(len(p.tokens) for one in patients for p in one)
    rows = [to_tensors(one, aged=spec.aged, length=length, bag=bag) for one in patients]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def compare(got: Made, expected: Made) -> Difference:
    """The largest differences over both outputs; infinite ones have to be the same ones."""
    worst = [_compare(got[name], expected[name]) for name in OUTPUTS]
    return Difference(
        max_abs=max(d.max_abs for d in worst), max_rel=max(d.max_rel for d in worst), holds=all(d.holds for d in worst)
    )


def _compare(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> Difference:
    finite = np.isfinite(expected)
    same = got.shape == expected.shape and bool((got[~finite] == expected[~finite]).all())
    if not same or not np.isfinite(got[finite]).all():
        return Difference(float("inf"), float("inf"), False)
    wanted = np.abs(expected[finite].astype(np.float64))
    apart = np.abs(got[finite].astype(np.float64) - expected[finite])
    large = wanted > 0.01
    relative = float((apart[large] / wanted[large]).max()) if large.any() else 0.0
    holds = bool((apart <= TOLERANCE.atol + TOLERANCE.rtol * wanted).all())
    return Difference(float(f"{apart.max(initial=0.0):.2e}"), float(f"{relative:.2e}"), holds)


def prefix_invariance(cases: Sequence[EhrCase], run: GraphRunner, checked: Checked) -> dict[str, Any]:
    """The self-test over every case. Raises ParityError if the future matters."""
    worst, tried = 0.0, 0
    for case in cases:
        for positions in case_positions(case, checked.reading):
            worst, tried = max(worst, invariance.graph_difference(positions, run, aged=checked.spec.aged)), tried + 1
        if case.request is not None:
            changed = positions_of(invariance.with_future(case.request), checked.reading)
            if _plain(changed) != _plain(positions_of(case.request, checked.reading)):
                raise ParityError(f"events after the prediction time change the positions of case {case.name}")
    if not worst <= invariance.TOLERANCE:
        raise ParityError(
            f"the network looks ahead: later positions change an answer by {worst:.3g}, "
            f"tolerance {invariance.TOLERANCE:g}; nothing was stored",
            "this is no causal network: check the checkpoint and its attention",
        )
    return {
        "verdict": "ok",
        "patients": tried,
        "appended": invariance.APPENDED,
        "max_abs": float(f"{worst:.2e}"),
        "tolerance": invariance.TOLERANCE,
    }


def _plain(patients: list[list[Position]]) -> list[list[tuple[datetime, tuple[int, ...], tuple[float, ...], float]]]:
    return [[(p.time, p.tokens, p.weights, p.age_days) for p in one] for one in patients]


def require(results: Sequence[EhrResult]) -> None:
    """Raise ParityError for the first case that is out of tolerance."""
    for result in results:
        for stage, found in (("graph", result.graph), ("pipeline", result.pipeline)):
            if found is not None and not found.holds:
                raise ParityError(
                    f"parity breach: {stage} differs from the official layout in torch by {found.max_abs:.3g} "
                    f"(case {result.case.name}), tolerance {TOLERANCE.atol:g} + {TOLERANCE.rtol:g} * |value|; "
                    "nothing was stored",
                    "check config.json: heads, attention_width and hidden_act leave no trace in the tensors",
                )


def certificate(results: Sequence[EhrResult], invariant: dict[str, Any], opset: int) -> dict[str, Any]:
    """`parity.json`. Holds no dates and no host names."""
    found = [d for r in results for d in (r.graph, r.pipeline) if d is not None]
    worst = {"max_abs": max(d.max_abs for d in found), "max_rel": max(d.max_rel for d in found)}
    return {
        "format_version": 1,
        "verdict": "ok" if all(d.holds for d in found) else "breach",
        **worst,
        "outputs": dict.fromkeys(OUTPUTS, worst),
        "unit": "representation, and log2 of the hazard a time unit",
        "tolerance": asdict(TOLERANCE),
        "prefix_invariance": invariant,
        "stages": [
            "official layout, torch eager, float32, each patient alone and whole",
            "ONNX graph in onnxruntime, CPU, one thread, padded batch",
            "served pipeline: raw request, cut at the reach, padded",
        ],
        "runtime": "ONNX graph in onnxruntime",
        "opset": opset,
        "versions": versions(),
        "cpu": cpu_flags(),
        "cases": [_entry(result) for result in results],
    }


def _entry(result: EhrResult) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "patients": result.patients,
        "longest": result.longest,
        "raw": result.case.request is not None,
        "graph": result.graph.as_json(),
        "pipeline": None if result.pipeline is None else result.pipeline.as_json(),
    }
