"""API keys as an operator makes them: by `pressroom key`, written to a key file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pressroom.cli import app


class KeyRing:
    """Keys by name, and the file that holds their hashes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.toml"
        self.secrets: dict[str, str] = {}
        self._entries: list[dict[str, Any]] = []

    def make(self, name: str, *scopes: str, per_minute: int | None = None) -> str:
        """Make a key and add its entry to the file."""
        command = ["key", name, "--json", *(f"--scope={scope}" for scope in scopes)]
        command += [f"--per-minute={per_minute}"] if per_minute else []
        made = json.loads(CliRunner().invoke(app, command).stdout)
        self.secrets[name] = made["key"]
        self._entries.append(made["entry"])
        self.write("".join(_toml(entry) for entry in self._entries))
        return str(made["key"])

    def drop(self, name: str) -> None:
        self._entries = [entry for entry in self._entries if entry["id"] != name]
        self.write("".join(_toml(entry) for entry in self._entries))

    def write(self, text: str) -> None:
        """Exchange the file in one step, as a secret mount does."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self.path)

    def restore(self) -> None:
        self.write("".join(_toml(entry) for entry in self._entries))

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[name]}"}

    def metadata(self, name: str) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.secrets[name]}")]


def _toml(entry: dict[str, Any]) -> str:
    return "[[keys]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items()) + "\n"
