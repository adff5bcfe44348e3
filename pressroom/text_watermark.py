"""`pressroom text watermark | decode | key`: texts that carry a message, asked of a running server; secret keys."""

from __future__ import annotations

import os
import re
import secrets
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.call import address_of, refuse
from pressroom.output import fail, print_json, print_table
from pressroom.text_input import read_texts

if TYPE_CHECKING:
    from pressroom_client import WatermarkReadings

WATERMARK_EXAMPLE = 'Example: echo "The history of the town begins with" | pressroom text watermark - --message 613'
DECODE_EXAMPLE = "Example: pressroom text decode essay.txt --model smollm2-mark"
KEY_EXAMPLE = "Example: pressroom text key 2026-11 --file keys/watermark.toml"
_AT_ONCE = 16  # texts of one request
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The prompt, UTF-8; - is standard input.")]
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Each one text, UTF-8; - is standard input.")]
Model = Annotated[str | None, typer.Option(help="The scheme: name or name:version. Default: the only one served.")]
Url = Annotated[str | None, typer.Option(help="http://host:port or grpc://host:port. Default: this machine.")]
Grpc = Annotated[bool, typer.Option("--grpc", help="Speak gRPC.")]
ApiKey = Annotated[str | None, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.")]
KeyId = Annotated[str | None, typer.Option(help="Id of the watermark key. Default: the current one; to read: all.")]
Seconds = Annotated[float, typer.Option("--timeout", min=1, help="Longest wait for one answer, s.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")]


def watermark(
    file: File,
    message: Annotated[int | None, typer.Option(min=0, help="The message as a number.")] = None,
    bits: Annotated[str | None, typer.Option(help="The message as characters 0 and 1.")] = None,
    label: Annotated[str | None, typer.Option(help="The message as a short text the server registers.")] = None,
    key_id: KeyId = None,
    delta: Annotated[float | None, typer.Option(help="Strength, logits. Default: the scheme's.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Default: as many as the message needs.")] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2)] = 0.8,
    seed: Annotated[int | None, typer.Option(help="Same seed, same request: same text.")] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after the model's end token.")] = False,
    model: Model = None,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    timeout: Seconds = 300.0,
    as_json: AsJson = False,
) -> None:
    """Continue a prompt with text that carries a message; the text goes to standard output."""
    from pressroom_client import Client, PressroomError, UsageError

    [prompt] = read_texts([file]).values()
    named = {"message": message, "bits": bits, "label": label, "key_id": key_id, "delta": delta}
    payload = {name: value for name, value in named.items() if value is not None}
    options: dict[str, Any] = {"temperature": temperature}
    options |= {name: value for name, value in (("max_tokens", max_tokens), ("seed", seed)) if value is not None}
    try:
        with Client(address_of(url, grpc), api_key=api_key, timeout=timeout) as client:
            marked = client.generate(
                prompt.rstrip("\n"), watermark=payload or None, model=model, ignore_eos=ignore_eos or None, **options
            )
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    if as_json:
        print_json(asdict(marked))
        return
    print(marked.text)
    embedded = f"{marked.segments_embedded} of {marked.segments} segments embedded in {marked.tokens} tokens"
    print(f"{embedded}, key {marked.key_id}", file=sys.stderr)


def decode(
    files: Files,
    message_bits: Annotated[int | None, typer.Option(min=1, help="Default: one segment of the scheme.")] = None,
    registered: Annotated[
        bool, typer.Option("--registered", help="Look only for messages the server's registry knows.")
    ] = False,
    key_id: KeyId = None,
    model: Model = None,
    url: Url = None,
    grpc: Grpc = False,
    api_key: ApiKey = None,
    timeout: Seconds = 300.0,
    as_json: AsJson = False,
) -> None:
    """Read which message texts carry, if any."""
    from pressroom_client import Client, PressroomError, UsageError

    texts = read_texts(files)
    asked: dict[str, Any] = {"message_bits": message_bits, "key_id": key_id, "model": model}
    asked["candidates"] = "registered" if registered else None
    names = list(texts)
    results: list[WatermarkReadings] = []
    try:
        with Client(address_of(url, grpc), api_key=api_key, timeout=timeout) as client:
            for at in range(0, len(names), _AT_ONCE):
                results.append(client.decode_watermark([texts[name] for name in names[at : at + _AT_ONCE]], **asked))
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    print_json([asdict(one) for one in results]) if as_json else _show(names, results)


def key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Name of the key, in answers and settings: 2026-11.")],
    file: Annotated[Path, typer.Option("--file", help="Key file; made if it is missing, readable by its owner only.")],
    current: Annotated[bool, typer.Option(help="Texts are marked with this key from now on.")] = True,
) -> None:
    """Draw a secret key and add it to a key file. The secret is written there and shown nowhere."""
    if not _ID.fullmatch(key_id):
        raise typer.Exit(fail(f"{key_id!r} is no key id", "1 to 64 letters, digits, '.', '_', '-'", 2, as_json=False))
    try:
        held = file.read_text() if file.exists() else ""
        known = tomllib.loads(held)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        told = f"{file.name} is no key file: {type(fault).__name__}"
        raise typer.Exit(fail(told, "name another file, or mend it", 2, as_json=False)) from None
    if any(entry.get("id") == key_id for entry in known.get("keys", ())):
        raise typer.Exit(fail(f"{file.name} has a key {key_id!r}", "choose another id", 2, as_json=False))
    marks = key_id if current or "current" not in known else str(known["current"])
    _write(file, held, key_id, marks)
    print(f"{file.name}: key {key_id} added; texts are marked with {marks}")


def _write(file: Path, held: str, key_id: str, current: str) -> None:
    """In place of the old file at once; nobody but its owner may read it."""
    rest = re.sub(r"(?m)^current\s*=.*\n?", "", held).strip()
    entry = f'[[keys]]\nid = "{key_id}"\nsecret = "{secrets.token_hex(32)}"\n'
    fresh = file.with_name(f".{file.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as target:
        target.write("\n\n".join([f'current = "{current}"', *([rest] if rest else []), entry]))
    fresh.replace(file)


def _show(names: list[str], results: list[WatermarkReadings]) -> None:
    readings = [reading for result in results for reading in result]
    rows = [
        [
            name,
            one.verdict,
            "-"
            if one.message is None and one.bits is None
            else str(one.message if one.message is not None else one.bits),
            f"{one.p_value:.1e}",
            one.key_id if one.verdict == "marked" else "-",
            f"{sum(part.unique_tokens for part in one.segments)} of {one.tokens}",
            ", ".join(f"{field} {value}" for field, value in (one.payload or {}).items()) or "-",
        ]
        for name, one in zip(names, readings, strict=True)
    ]
    print_table(["text", "verdict", "message", "p", "key", "pairs of tokens", "stands for"], rows)
    last = results[-1]
    print(f"{last.model}:{last.version}  {last.digest}; declared rate {readings[-1].level:g}; evidence, not proof")
