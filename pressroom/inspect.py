"""`pressroom inspect`: what an artifact is, takes and promises, read from the store with every digest checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.output import console, print_json, print_table

if TYPE_CHECKING:
    from export.artifact import Artifact

_EXAMPLE = "Example: pressroom inspect itransformer-etth1"
LLM = "llm"  # the family whose certificates are of another kind
_LONGEST = 5  # entries of a long list that are shown


def inspect(
    target: Annotated[str, typer.Argument(metavar="NAME[:VERSION]", help="An artifact of the model store.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print manifest and certificate as JSON.")] = False,
) -> None:
    """Show an artifact's manifest, signature and parity certificate."""
    artifact = open_named(target)
    certificate = artifact.read_json("parity.json")
    if as_json:
        print_json({"digest": artifact.digest, "manifest": artifact.manifest.model_dump(), "certificate": certificate})
        return
    print_table(["", ""], _facts(artifact))
    print_table(["tensor", "name", "dtype", "shape", "unit", "meaning"], _tensors(artifact))
    print_table(["hyper-parameter", "value", "from"], _hyper_parameters(artifact))
    print_table(["metric", "value", "data", "split", "origin"], _metrics(artifact))
    if artifact.manifest.family == LLM:
        print_table(["certificate, against transformers in float32", "found", "bound"], _certified(certificate))
        console().print(_libraries(certificate), markup=False)
    else:
        console().print(_certificate(certificate), markup=False)


def open_named(target: str) -> Artifact:
    """Open NAME or NAME:VERSION. Raises OptionError if the store has no such artifact, ArtifactError if damaged."""
    from export.artifact import open_artifact, stored_versions
    from export.errors import OptionError
    from export.store import store_root

    store_root()  # says what is wrong with BENTOML_HOME, should anything be
    name, _, version = target.partition(":")
    held = stored_versions()
    if name not in held or (version not in ("", "latest") and version not in held[name]):
        known = ", ".join(held) or "none yet, press one with `pressroom export`"
        raise OptionError(f"no artifact {target} in the model store", f"`pressroom models` lists them: {known}")
    return open_artifact(name, version or None)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(inspect)


def _facts(artifact: Artifact) -> list[list[str]]:
    m = artifact.manifest
    settings = {name: value for name, value in m.settings.items() if name not in ("scaler", "columns")}
    return [
        ["artifact", f"{artifact.tag}  {artifact.digest}"],
        ["network", f"{m.architecture} ({m.family}): {m.paper.title}, {m.paper.venue}, {m.paper.url}"],
        ["official program", f"{m.official.repository} at {m.official.commit[:12]}, licence: {m.official.licence}"],
        ["checkpoint", f"{m.source.file} ({m.source.format}, {m.source.tensors} tensors), sha256 {m.source.sha256}"],
        *[["note", note] for note in m.source.notes],
        *([["not used", _some(m.source.dropped)]] if m.source.dropped else []),
        ["request", m.request],
        *[["pipeline" if i == 0 else "", f"{i + 1}. {step}"] for i, step in enumerate(m.pipeline)],
        ["settings", ", ".join(f"{name} {value}" for name, value in settings.items())],
        ["runtime", f"{m.runtime.kind}, {m.runtime.file}" + (f", opset {m.runtime.opset}" if m.runtime.opset else "")],
        *[["file", f"{name}  {entry.bytes:,} bytes  sha256 {entry.sha256}"] for name, entry in m.files.items()],
    ]


def _tensors(artifact: Artifact) -> list[list[str]]:
    signature = artifact.manifest.signature
    rows = [("in", spec) for spec in signature.inputs] + [("out", spec) for spec in signature.outputs]
    return [
        [way + (" (optional)" if t.optional else ""), t.name, t.dtype, str(t.shape).replace("'", ""), t.unit, t.meaning]
        for way, t in rows
    ]


def _hyper_parameters(artifact: Artifact) -> list[list[str]]:
    m = artifact.manifest
    return [[name, str(value), m.hyper_parameter_origins.get(name, "")] for name, value in m.hyper_parameters.items()]


def _metrics(artifact: Artifact) -> list[list[str]]:
    return [[m.name, f"{m.value:g}", m.data, m.split, m.origin] for m in artifact.manifest.metrics] or [["none"] * 5]


def _certificate(certificate: dict[str, Any]) -> str:
    tolerance = certificate["tolerance"]
    return (
        f"parity certificate: {certificate['verdict']}, {len(certificate['cases'])} cases, largest difference "
        f"{certificate['max_abs']:.1e} of {tolerance['atol']:.0e} + {tolerance['rtol']:.0e} * |value|, "
        + _libraries(certificate)
    )


def _certified(certificate: dict[str, Any]) -> list[list[str]]:
    from pressroom.export_llm import figures

    return figures(certificate, certificate["tolerance"])


def _libraries(certificate: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in certificate["versions"].items())


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_LONGEST])
    return shown if len(names) <= _LONGEST else f"{shown} and {len(names) - _LONGEST} more tensors"
