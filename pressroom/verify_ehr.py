"""`pressroom verify` for record models: the certificate's raw cases, prefix invariance, and every adapter's digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact
    from export.ehr_parity import EhrResult


def verify_ehr(artifact: Artifact, as_json: bool) -> int:
    """Repeat what needs no torch: graph and pipeline against the recorded outputs. 0 if all holds, else 1."""
    from export.artifact import attached_adapters
    from export.ehr_check import recheck

    found = recheck(artifact)
    adapters = attached_adapters(found.spec.backbone)
    if as_json:
        print_json(
            {
                "tag": artifact.tag,
                "digest": artifact.digest,
                "holds": found.holds,
                "files": len(artifact.manifest.files) + 1,
                "cases": [
                    {"name": r.case.name, "graph": r.graph.as_json(), "pipeline": r.pipeline.as_json()}
                    for r in found.results
                    if r.pipeline is not None
                ],
                "prefix_invariance": found.invariant,
                "adapters": [digest for digest, _ in adapters],
            }
        )
        return 0 if found.holds else 1
    rows = [
        [r.case.name, str(r.patients), str(r.longest), *(f"{d.max_abs:.1e}" for d in (r.graph, r.pipeline)), _word(r)]
        for r in found.results
        if r.pipeline is not None
    ]
    print_table(["case", "patients", "longest", "graph", "pipeline", "verdict"], rows)
    console().print(
        f"{artifact.tag} {artifact.digest}: {len(artifact.manifest.files) + 1} files intact, prefix invariance "
        f"{found.invariant['max_abs']:.1e}, {len(adapters)} adapters intact",
        markup=False,
        soft_wrap=True,
    )
    return 0 if found.holds else 1


def _word(result: EhrResult) -> str:
    return "ok" if result.graph.holds and (result.pipeline is None or result.pipeline.holds) else "FAIL"
