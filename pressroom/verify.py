"""`pressroom verify`: does an artifact still compute what it was certified for, does this build agree with the papers?

pressroom verify NAME[:VERSION]      every file's digest, every case of the certificate, the example
pressroom verify golden PATH...      cases made by the papers' own programs, see `pressroom.verify_golden`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact
    from export.parity import CaseResult

GOLDEN = "golden"
_EXAMPLE = """\b
Examples:
  pressroom verify card-etth1
  pressroom verify golden tests/golden"""


def verify(
    target: Annotated[str, typer.Argument(metavar="NAME[:VERSION] | golden", help="An artifact, or the word golden.")],
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="With golden: case files, folders.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a stored artifact against its certificate, or this build against golden cases."""
    if target == GOLDEN:
        from pressroom.verify_golden import verify_golden

        raise typer.Exit(verify_golden(paths or [], as_json))
    if paths:
        raise typer.BadParameter(f"{paths[0]!r}: paths go with `verify golden` only", param_hint="PATH")
    raise typer.Exit(_verify_artifact(target, as_json))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(verify)


def _verify_artifact(target: str, as_json: bool) -> int:
    """Open (which checks all digests), repeat the certificate's cases and the example. 0 if all hold, else 1."""
    from pressroom.inspect import open_named
    from pressroom.verify_detect import verify_detect
    from pressroom.verify_ehr import verify_ehr
    from pressroom.verify_llm import verify_llm
    from pressroom.verify_onnx import verify_onnx
    from pressroom.verify_text_detect import verify_text_detect
    from pressroom.verify_watermark import verify_watermark

    artifact = open_named(target)
    of_family = {"llm": verify_llm, "watermark": verify_watermark, "text-detect": verify_text_detect}
    of_family |= {"detect": verify_detect, "ehr": verify_ehr, "onnx": verify_onnx}
    return of_family.get(artifact.manifest.family, _verify_forecaster)(artifact, as_json)


def _verify_forecaster(artifact: Artifact, as_json: bool) -> int:
    from export.example import largest_difference
    from export.parity import recheck
    from export.runner import artifact_runner
    from models.forecasting.spec import ForecastSpec

    run, spec = artifact_runner(artifact), ForecastSpec.from_settings(artifact.manifest.settings)
    results = recheck(artifact, run, spec)
    example, example_holds = largest_difference(artifact.read_json("example.json"), run, spec)
    holds = example_holds and all(_holds(result) for result in results)
    if as_json:
        print_json(_as_json(artifact, results, example, example_holds, holds))
    else:
        _print(artifact, results, example, example_holds)
    return 0 if holds else 1


def _print(artifact: Artifact, results: list[CaseResult], example: float, example_holds: bool) -> None:
    recorded = artifact.read_json("parity.json")
    tolerance = f"{recorded['tolerance']['atol']:.0e}"
    rows = [
        ["forecast", r.case.name, str(list(r.reference.shape)), *_differences(r), tolerance, _word(_holds(r))]
        for r in results
    ]
    units = f"{artifact.read_json('example.json')['tolerance']['atol']:.1e}"
    rows.append(["example", "raw units", "-", "-", f"{example:.1e}", units, _word(example_holds)])
    print_table(["output", "case", "shape", "graph", "pipeline", "tolerance", "verdict"], rows)
    engine, files = recorded["runtime"], len(artifact.manifest.files) + 1
    console().print(
        f"{artifact.tag} {artifact.digest}: {files} files intact, {len(results)} cases, {engine}", markup=False
    )


def _as_json(
    artifact: Artifact, results: list[CaseResult], example: float, example_holds: bool, holds: bool
) -> dict[str, Any]:
    return {
        "tag": artifact.tag,
        "digest": artifact.digest,
        "holds": holds,
        "files": len(artifact.manifest.files) + 1,
        "tolerance": artifact.read_json("parity.json")["tolerance"],
        "cases": [
            {
                "name": r.case.name,
                "shape": list(r.reference.shape),
                "graph": r.graph.as_json(),
                "pipeline": None if r.pipeline is None else r.pipeline.as_json(),
                "holds": _holds(r),
            }
            for r in results
        ],
        "example": {"max_abs": example, "holds": example_holds},
    }


def _differences(result: CaseResult) -> list[str]:
    return [f"{result.graph.max_abs:.1e}", "-" if result.pipeline is None else f"{result.pipeline.max_abs:.1e}"]


def _holds(result: CaseResult) -> bool:
    return result.graph.holds and (result.pipeline is None or result.pipeline.holds)


def _word(holds: bool) -> str:
    return "ok" if holds else "FAIL"
