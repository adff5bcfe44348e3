"""Reading golden cases: `CASE.json`, mostly with `CASE.safetensors` beside it.

The JSON names the `system` (which code answers), the official `config`, tolerances and notes; some systems keep their
inputs and expected values there too. The safetensors file holds `state.<official parameter>`, `input.<name>` and
`output.<name>`. A case says everything about itself, so files from anywhere can be checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from export.golden.compare import Tolerance


class CaseError(ValueError):
    """A golden case cannot be read or used; the message names the file and what is wrong with it."""


class NotACaseError(CaseError):
    """The file is readable JSON, but not a golden case (no "system" in it)."""


@dataclass(frozen=True)
class GoldenCase:
    """One case. `document` is the whole JSON, for systems that keep values there."""

    path: Path
    system: str  # lower case
    document: dict[str, Any]

    @property
    def name(self) -> str:
        """File name without its ending."""
        return self.path.stem

    @property
    def config(self) -> dict[str, Any]:
        """Official hyper-parameters; empty where the case has none."""
        return self._section("config")

    @property
    def tensors_path(self) -> Path:
        """Where the tensors belong: beside the JSON, same name."""
        return self.path.with_suffix(".safetensors")

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor under its full name. Raises CaseError where the file is missing or damaged."""
        path = self.tensors_path
        if not path.is_file():
            raise CaseError(f"{self.path.name}: {path.name} is missing beside it; copy both files of the case")
        try:
            return dict(load_file(path))
        except (SafetensorError, OSError, ValueError) as error:
            raise CaseError(f"{path.name} is not a readable safetensors file ({error}); copy it again") from error

    def group(self, prefix: str) -> dict[str, Tensor]:
        """Tensors `<prefix>.<name>` as name -> tensor: "state", "input" or "output"."""
        start = f"{prefix}."
        return {name.removeprefix(start): t for name, t in self.tensors.items() if name.startswith(start)}

    def tolerance(self, output: str) -> Tolerance:
        """`tolerance`; or, where `tolerance` names one output only, `tolerance_intermediate` for the others."""
        main = self._section("tolerance")
        applies_to = str(main.get("applies_to"))
        elsewhere = "applies_to" in main and applies_to in self.tensors and applies_to != f"output.{output}"
        chosen = (elsewhere and self._section("tolerance_intermediate")) or main
        try:
            return Tolerance(float(chosen["atol"]), float(chosen.get("rtol", 0.0)))
        except (KeyError, TypeError, ValueError) as error:
            raise CaseError(
                f'{self.path.name}: "tolerance" must hold "atol" and "rtol", finite and not negative'
            ) from error

    def _section(self, name: str) -> dict[str, Any]:
        found = self.document.get(name, {})
        if not isinstance(found, dict):
            raise CaseError(f'{self.path.name}: "{name}" is a {type(found).__name__}, expected an object')
        return found


def read_case(path: Path) -> GoldenCase:
    """Read one JSON file. Raises NotACaseError where it is no case, CaseError where it cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CaseError(f"{path.name} is not readable JSON ({error})") from error
    system = document.get("system") if isinstance(document, dict) else None
    if not isinstance(system, str) or not system.strip():
        raise NotACaseError(f'{path.name} is not a golden case: a case is a JSON object with a "system"')
    return GoldenCase(path, system.strip().lower(), document)


def find_cases(paths: Iterable[Path]) -> list[Path]:
    """JSON files named directly (or by their safetensors file) and all below the folders, each once, in order.

    Raises FileNotFoundError naming a path that does not exist.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        below = sorted(path.rglob("*.json")) if path.is_dir() else [_json_of(path)]
        for file in below:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _json_of(path: Path) -> Path:
    return path.with_suffix(".json") if path.suffix == ".safetensors" else path
