"""`pressroom k8s`: manifests for one's own cluster from a small file of values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pressroom.output import console, print_json

_EXAMPLE = "Example: pressroom k8s render k8s/values.example.yaml > manifests.yaml"

k8s = typer.Typer(no_args_is_help=True, help="Kubernetes manifests.", rich_markup_mode=None)


@k8s.command(epilog=_EXAMPLE)
def render(
    values: Annotated[Path, typer.Argument(help="YAML file, see k8s/values.example.yaml and values.schema.json.")],
    overlay: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a kustomize overlay to commit instead; DIR lies beside k8s/overlays."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Objects as a JSON array.")] = False,
) -> None:
    """Fill in names, images, models and keys, and check that the manifests fit together. Needs kubectl."""
    import yaml

    from pressroom.k8s_render import render as rendered
    from pressroom.k8s_render import write_overlay
    from pressroom.k8s_values import read_values

    chosen = read_values(values)
    objects = rendered(chosen)
    if overlay is not None:
        overlay.mkdir(parents=True, exist_ok=True)
        write_overlay(chosen, overlay)
        console().print(
            f"{overlay}: {len(objects)} objects, checked; apply with kubectl apply -k {overlay}", markup=False
        )
    elif as_json:
        print_json(objects)
    else:
        typer.echo(yaml.safe_dump_all(objects, sort_keys=False, width=120), nl=False)


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(k8s, name="k8s")
