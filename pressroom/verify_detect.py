"""`pressroom verify` of an image model: its certificate's cases and its example, repeated without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact


def verify_detect(artifact: Artifact, as_json: bool) -> int:
    """0 if all of it holds, else 1. The artifact is open, which is to say that all digests are right."""
    from export.detect_example import largest_difference
    from export.detect_parity import recheck
    from export.detect_pipeline import DetectPipeline
    from models.clipself.pipeline.spec import DetectSpec

    spec = DetectSpec.from_settings(artifact.manifest.settings)
    pipeline = DetectPipeline(artifact.path, spec)
    tolerance = artifact.read_json("parity.json")["tolerance"]
    results = recheck(artifact, spec, pipeline.engine.graphs)
    example, example_holds = largest_difference(artifact.read_json("example.json"), pipeline)
    holds = example_holds and all(result.holds for result in results)
    if as_json:
        print_json(
            {
                "tag": artifact.tag,
                "digest": artifact.digest,
                "holds": holds,
                "files": len(artifact.manifest.files) + 1,
                "tolerance": tolerance,
                "cases": [vars(result) for result in results],
                "example": {"max_abs": example, "holds": example_holds},
            }
        )
        return 0 if holds else 1
    rows = [
        [r.name, str(list(r.shape)), f"{r.max_abs:.1e}", f"{tolerance['atol']:.0e}", _word(r.holds)] for r in results
    ]
    rows.append(["example", "-", f"{example:.1e}", "-", _word(example_holds)])
    print_table(["output", "numbers", "max |diff|", "tolerance", "verdict"], rows)
    files = len(artifact.manifest.files) + 1
    console().print(f"{artifact.tag} {artifact.digest}: {files} files intact, {len(results)} outputs", markup=False)
    return 0 if holds else 1


def _word(holds: bool) -> str:
    return "ok" if holds else "FAIL"
