"""`pressroom verify` of a watermarking scheme: its certificate's texts and its example, read again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact


def verify_watermark(artifact: Artifact, as_json: bool) -> int:
    """0 if all of it holds, else 1. The artifact is open, which is to say that all digests are right."""
    from export.watermark import recheck
    from pressroom.export_watermark import HEADINGS, rows

    again = recheck(artifact)
    files = len(artifact.manifest.files) + 1
    if as_json:
        cases = [asdict(one) for one in again.findings]
        example = {"holds": again.example}
        found = {"tag": artifact.tag, "digest": artifact.digest, "holds": again.holds, "files": files}
        print_json({**found, "cases": cases, "example": example})
    else:
        print_table(HEADINGS, rows(again.findings))
        told = "reads as recorded" if again.example else "reads differently: FAIL"
        facts = f"{files} files intact, {len(again.findings)} texts; the example {told}"
        console().print(f"{artifact.tag} {artifact.digest}: {facts}", markup=False)
    return 0 if again.holds else 1
