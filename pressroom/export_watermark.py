"""`pressroom export watermark`: press a watermarking scheme for a language model of the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pressroom.output import console, identity, print_json, print_table, progress_bar, stored_line

if TYPE_CHECKING:
    from export.watermark import Pressed
    from export.watermark_parity import Finding

EXAMPLE = """\b
Example:
  pressroom export watermark --generator smollm2 --name smollm2-mark"""

Generator = Annotated[str, typer.Option(help="The language model whose texts are marked: name or name:version.")]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
ProxyText = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="UTF-8 text like what will be marked. Default: the repository's WikiText-2 cut.",
    ),
]
Bits = Annotated[int | None, typer.Option("--message-bits", help="Bits of one segment, 1 to 20. Default: 20.")]
TokensPerBit = Annotated[float | None, typer.Option(help="Length of a segment, tokens per bit. Default: 9.")]
Delta = Annotated[float | None, typer.Option(help="How far unavailable tokens are held back, logits. Default: 2.")]
Window = Annotated[int | None, typer.Option(help="Tokens of an answer before the first marked one. Default: 1.")]
Permutations = Annotated[int | None, typer.Option(help="Of the vocabulary at each position. Default: 100.")]
TopK = Annotated[int | None, typer.Option(help="Likeliest tokens that are marked; 0: all. Default: 1000.")]
Reach = Annotated[
    float | None,
    typer.Option(help="Logits below the likeliest token within which available ones are spared; 0: all. Default: 6."),
]
Parity = Annotated[int | None, typer.Option(help="Segments added for error correction. Default: 0.")]
Level = Annotated[float | None, typer.Option(help="Declared rate of unmarked texts called marked. Default: 0.01.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def watermark(
    generator: Generator,
    name: Name,
    version: Version = None,
    proxy_text: ProxyText = None,
    message_bits: Bits = None,
    tokens_per_bit: TokensPerBit = None,
    delta: Delta = None,
    window: Window = None,
    permutations: Permutations = None,
    top_k: TopK = None,
    reach: Reach = None,
    parity: Parity = None,
    level: Level = None,
    as_json: AsJson = False,
) -> None:
    """Press a watermarking scheme. Nothing is stored unless its messages come back and a second program agrees."""
    named = {
        "message_bits": message_bits,
        "tokens_per_bit": tokens_per_bit,
        "delta": delta,
        "window": window,
        "permutations": permutations,
        "top_k": top_k,
        "reach": reach,
        "parity": parity,
        "level": level,
    }
    with progress_bar() as report:
        from export.watermark import WatermarkJob, press

        settings = {option: value for option, value in named.items() if value is not None}
        job = WatermarkJob(generator=generator, name=name, version=version, proxy_text=proxy_text, settings=settings)
        pressed = press(job, report)
    print_json(_as_json(pressed)) if as_json else _show(pressed)


def rows(findings: list[Finding]) -> list[list[str]]:
    """One line a text of the certificate."""
    return [
        [
            one.name,
            str(one.tokens),
            " ".join(map(str, one.embedded)) or "-",
            " ".join("-" if message is None else str(message) for message in one.read),
            one.verdict,
            f"{one.p_value:.1e}",
            f"{one.counted}, {one.difference}",
            "ok" if one.holds else "FAIL",
        ]
        for one in findings
    ]


HEADINGS = ("text", "tokens", "embedded", "read", "verdict", "p", "counted twice, difference", "")


def _show(pressed: Pressed) -> None:
    from export.watermark_parity import Finding

    stored, example = pressed.stored, pressed.example["response"]
    console().print(stored_line(stored), markup=False, soft_wrap=True)
    print_table(HEADINGS, rows([Finding(**one) for one in pressed.certificate["cases"]]))
    console().print(
        f"a text of its generator: embedded {pressed.example['embedded']}, read {example['message']}, "
        f"{example['verdict']}, p {example['p_value']:.1e}",
        markup=False,
        soft_wrap=True,
    )


def _as_json(pressed: Pressed) -> dict[str, object]:
    stored = pressed.stored
    return {
        **identity(stored),
        "certificate": pressed.certificate,
        "scheme": pressed.scheme.as_settings(),
        "example": pressed.example,
    }
