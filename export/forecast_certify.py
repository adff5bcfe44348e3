"""A forecaster's certificate and example, in float32 and, on request, of its int8 form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from export import int8, parity
from export.artifact import EXAMPLE, PARITY, Runtime
from export.errors import DataError, ParityError
from export.example import make_example
from export.parity_cases import Case, WindowSource, plan_cases
from export.runner import Runner, module_runner, onnx_runner
from models.errors import InputError

if TYPE_CHECKING:
    from export.forecast import Network


def certify(
    network: Network,
    run: Runner,
    runtime: Runtime,
    name: str,
    files: Path,
    tolerance: parity.Tolerance | None = None,
) -> dict[str, Any]:
    """Make the parity certificate and the example, or raise ParityError. tolerance: None for float32's."""
    spec, tolerance = network.spec, tolerance or parity.TOLERANCE
    results = [parity.check_case(c, ref, run, spec, tolerance) for c, ref in _references(network)]
    parity.require(results, tolerance)
    engine = "ONNX graph in onnxruntime" if runtime.kind == "onnx" else "network in torch"
    certificate = parity.certificate(results, tolerance, engine, runtime.opset)
    parity.save_cases(results, files / parity.CASES_FILE)
    write_certificate(certificate, files)
    example = make_example(name, results[0].case, run, spec, tolerance)
    (files / EXAMPLE).write_text(json.dumps(example, ensure_ascii=False) + "\n", encoding="utf-8")
    return certificate


def write_certificate(certificate: dict[str, Any], files: Path) -> None:
    """`parity.json`."""
    (files / PARITY).write_text(json.dumps(certificate, indent=1) + "\n", encoding="utf-8")


def _cases(network: Network) -> list[Case]:
    """The certificate's cases. Raises DataError where the data does not make any."""
    columns = network.prepared.columns
    source = WindowSource(
        spec=network.spec,
        variates=len(columns) if columns else network.hyper.config.variates,
        table=network.prepared.table,
        split=network.prepared.split,
    )
    try:
        return plan_cases(source, any_variates=network.record.any_variates)
    except InputError as error:
        raise _not_fed(error) from None


def _references(network: Network) -> list[tuple[Case, Any]]:
    """The certificate's cases with the official layout's forecasts."""
    eager = module_runner(network.module)
    try:
        return [(case, eager(case.tensors(network.spec))) for case in _cases(network)]
    except InputError as error:
        raise _not_fed(error) from None


def _not_fed(error: InputError) -> DataError:
    return DataError(f"the data cannot be fed to the network: {error.message}", error.hint or "")


def quantise(
    network: Network, runtime: Runtime, certified: dict[str, Any], name: str, files: Path
) -> tuple[Runner, dict[str, Any]]:
    """Turn the certified graph into int8: its runner and a certificate of its own. Raises ParityError."""
    graph = files / runtime.file
    made = int8.quantise(graph)
    run = onnx_runner(graph)
    try:
        certificate = certify(network, run, runtime, name, files, int8.TOLERANCE)
    except ParityError as breach:
        raise int8.refused(breach.message) from None
    batch = max((case for case in _cases(network) if case.raw), key=lambda case: len(case.history))
    fp32 = {"max_abs": certified["max_abs"], "tolerance": certified["tolerance"]}
    certificate["runtime"] += ", int8"
    certificate["int8"] = made.as_json() | {"mates": int8.mates(run, batch.tensors(network.spec)), "fp32": fp32}
    write_certificate(certificate, files)
    return run, certificate
