"""`pressroom key`: make an API key and the entry its hash has in the key file."""

from __future__ import annotations

import secrets
from typing import Annotated, get_args

import typer

from pressroom.output import print_json

_EXAMPLE = "Example: pressroom key team-a --scope infer --scope metrics --per-minute 600 >> keys.toml"


def key(
    name: Annotated[str, typer.Argument(metavar="ID", help="Who the key is for; shows in refusals, never the key.")],
    scopes: Annotated[list[str] | None, typer.Option("--scope", help="infer (default), metrics or admin.")] = None,
    per_minute: Annotated[int | None, typer.Option(help="Requests per minute; none: no limit.")] = None,
    per_day: Annotated[int | None, typer.Option(help="Requests per day; none: no limit.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Key and entry as JSON on standard output.")] = False,
) -> None:
    """Make an API key: the key on standard error, once; its entry for the key file on standard output."""
    from services.core.auth import Key, Scope, hash_secret

    wanted = scopes or ["infer"]
    if unknown := [s for s in wanted if s not in get_args(Scope)]:
        raise typer.BadParameter(f"{unknown[0]!r}: there are {', '.join(get_args(Scope))}", param_hint="--scope")
    secret = secrets.token_urlsafe(32)
    entry: dict[str, str | int | list[str]] = {"id": name, "sha256": hash_secret(secret), "scopes": wanted}
    entry |= {"requests_per_minute": per_minute} if per_minute else {}
    entry |= {"requests_per_day": per_day} if per_day else {}
    try:
        Key.model_validate(entry)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="ID") from None
    if as_json:
        print_json({"key": secret, "entry": entry})
        return
    typer.echo(f"key (shown once, not stored): {secret}", err=True)
    lines = [f"{name} = {value if isinstance(value, int) else _toml(value)}" for name, value in entry.items()]
    typer.echo("[[keys]]\n" + "\n".join(lines) + "\n")


def _toml(value: str | list[str]) -> str:
    return f'"{value}"' if isinstance(value, str) else "[" + ", ".join(f'"{v}"' for v in value) + "]"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(key)
