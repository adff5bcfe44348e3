"""`pressroom verify` of an ONNX graph: every recorded case in this installation's onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact


def verify_onnx(artifact: Artifact, as_json: bool) -> int:
    """0 if every case holds, else 1. The artifact is open, which is to say that all digests are right."""
    from export.onnx_parity import recheck

    results = recheck(artifact)
    holds, files = all(result.holds for result in results), len(artifact.manifest.files) + 1
    if as_json:
        cases = [{"name": r.case.name, "graph": r.graph.as_json(), "pipeline": r.pipeline.as_json()} for r in results]
        print_json({"tag": artifact.tag, "digest": artifact.digest, "holds": holds, "files": files, "cases": cases})
        return 0 if holds else 1
    rows = [
        [r.case.name, *(f"{d.max_abs:.1e}" for d in (r.graph, r.pipeline)), "ok" if r.holds else "FAIL"]
        for r in results
    ]
    print_table(["case", "batch at once", "row by row", "verdict"], rows)
    console().print(f"{artifact.tag} {artifact.digest}: {files} files intact, {len(results)} cases", markup=False)
    return 0 if holds else 1
