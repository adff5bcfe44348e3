"""`pressroom export ehr` and `ehr-adapter`: press a MOTOR network, store task adapters beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pressroom.output import console, print_json, progress_bar, stored_line

EXAMPLE = """\b
Example:
  pressroom export ehr data/checkpoints/motor_synthea --name motor-synthea"""
ADAPTER_EXAMPLE = """\b
Example:
  pressroom export ehr-adapter data/checkpoints/motor_synthea/*.adapter.json"""

Folder = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="femr folder: config.json, model.safetensors, dictionary.")
]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
OntologyFile = Annotated[
    Path | None,
    typer.Option("--ontology", exists=True, help="{code: [parents]} or MEDS codes.parquet. Default: the folder's."),
]
Birth = Annotated[
    list[str] | None,
    typer.Option("--birth-code", help="Code of birth events; may be repeated. Default: MEDS_BIRTH."),
]
Death = Annotated[list[str] | None, typer.Option("--death-code", help="Code of death events. Default: MEDS_DEATH.")]
Licence = Annotated[str | None, typer.Option(help="Of the weights.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]
Files = Annotated[
    list[Path], typer.Argument(exists=True, dir_okay=False, metavar="FILE...", help="TASK.adapter.json files.")
]


def ehr(
    folder: Folder,
    name: Name,
    version: Version = None,
    ontology: OntologyFile = None,
    birth_code: Birth = None,
    death_code: Death = None,
    licence: Licence = None,
    as_json: AsJson = False,
) -> None:
    """Press a health-record network (MOTOR). Nothing is stored unless parity and prefix invariance hold."""
    with progress_bar() as report:
        from export.ehr import LICENCE, EhrJob, press

        job = EhrJob(
            folder=folder,
            name=name,
            version=version,
            ontology=ontology,
            birth_codes=tuple(birth_code or ("MEDS_BIRTH",)),
            death_codes=tuple(death_code or ("MEDS_DEATH",)),
            licence=licence or LICENCE,
        )
        pressed = press(job, report)
    stored, certificate = pressed.stored, pressed.certificate
    if as_json:
        print_json(
            {
                "tag": stored.tag,
                "digest": stored.digest,
                "backbone": pressed.backbone,
                "unchanged": stored.unchanged,
                "certificate": certificate,
                "notes": pressed.notes,
            }
        )
        return
    invariant = certificate["prefix_invariance"]
    lines = [
        stored_line(stored),
        f"parity certificate: {certificate['verdict']}, {len(certificate['cases'])} cases, "
        f"largest difference {certificate['max_abs']:.1e} (tolerance {certificate['tolerance']['atol']:.0e})",
        f"prefix invariance: {invariant['verdict']}, {invariant['patients']} patients, "
        f"largest difference {invariant['max_abs']:.1e} (tolerance {invariant['tolerance']:.0e})",
        f"backbone for adapters: {pressed.backbone}",
        *(f"note: {note}" for note in pressed.notes),
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def ehr_adapter(files: Files, as_json: AsJson = False) -> None:
    """Store task adapters; each is served beside the backbone whose digest it names."""
    from export.ehr_adapter import store_adapter

    found = [store_adapter(path) for path in files]
    if as_json:
        print_json(
            [
                {
                    "tag": a.stored.tag,
                    "task": a.file.task,
                    "version": a.file.version,
                    "digest": a.stored.digest,
                    "backbone": a.file.backbone,
                    "unchanged": a.stored.unchanged,
                }
                for a in found
            ]
        )
        return
    for adapter in found:
        console().print(stored_line(adapter.stored), markup=False, soft_wrap=True)
