"""`pressroom verify` of a detector: what the engine said when it was pressed, against its generator's graph now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pressroom.export_text_detect import HEADINGS, rows
from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact


def verify_text_detect(artifact: Artifact, as_json: bool) -> int:
    """0 if every case holds, else 1. The artifact is open, which is to say that all digests are right."""
    from export.text_detect import recheck

    tolerance = artifact.read_json("parity.json")["tolerance"]
    findings = recheck(artifact)
    holds = all(one.difference <= tolerance["atol"] for one in findings)
    files = len(artifact.manifest.files) + 1
    if as_json:
        cases = [{"name": one.name, "tokens": len(one.tokens), "max_abs": one.difference} for one in findings]
        print_json({"tag": artifact.tag, "digest": artifact.digest, "holds": holds, "files": files,
                    "tolerance": tolerance, "cases": cases})  # fmt: skip
    else:
        print_table(HEADINGS, rows(findings, tolerance["atol"]))
        asked = artifact.manifest.runtime.file
        told = f"{artifact.tag} {artifact.digest}: {files} files intact, {len(findings)} cases, asks {asked}"
        console().print(told, markup=False)
    return 0 if holds else 1
