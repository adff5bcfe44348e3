"""Texts a command is given: files, or standard input as `-`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import typer


def read_texts(files: list[Path]) -> Mapping[str, str]:
    """Texts by file name, `-` for standard input; refused where a file is none, or is not UTF-8."""
    texts: dict[str, str] = {}
    for file in files:
        try:
            raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
            texts[str(file)] = raw.decode()
        except OSError as error:
            raise typer.BadParameter(f"{file} cannot be read: {error.strerror or error}", param_hint="FILE") from None
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{file} is not UTF-8 text", param_hint="FILE") from None
    return texts
