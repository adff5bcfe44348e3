"""Runs the fenced blocks of a Markdown page in order, as a reader would who copies them.

    ```console    every `$ ` line is run by bash in the repository's root; other lines are output, shown only
    ```python     runs in one namespace a page
    ```text, json, toml, yaml    shown only
    <!-- not run: why -->        on the line before a block: skipped, on the record

Commands that never end (`make serve`, `bentoml serve ...`) start in the background, are waited for until ready, and
stop when the next one starts. `make` targets that would install or run this very suite are read with `make -n`.
Ports are the only thing changed: 3000 and 3001 become free ones.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from live_server import LiveServer, clean_environment, running_server

ROOT = Path(__file__).resolve().parents[2]
SHOWN = frozenset({"text", "json", "toml", "yaml"})
RUN = frozenset({"console", "python"})
SECONDS = 150
_FENCE = re.compile(r"^```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+?) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block. line: where it opens, counted from 1; why_not: the stated reason not to run it."""

    language: str
    text: str
    line: int
    why_not: str | None

    @property
    def commands(self) -> list[str]:
        """The `$ ` lines of a console block; a backslash at the end joins the next line."""
        joined = self.text.replace("\\\n", " ")
        return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


def read_blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        marked = _NOT_RUN.search(text[: fence.start()])
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(fence["language"], fence["text"], line, marked["why"] if marked else None))
    return found


def runnable(page: Path) -> list[Block]:
    """The blocks of a page that a reader runs."""
    return [block for block in read_blocks(page) if block.language in RUN and block.why_not is None]


def unaccounted(page: Path) -> list[int]:
    """Lines of the blocks that are neither run nor shown."""
    return [block.line for block in read_blocks(page) if block.language not in RUN | SHOWN]


@dataclass
class Reader:
    """Someone who follows a page. home: the store; ports: what 3000 and 3001 stand for; said: what was printed."""

    home: Path
    scratch: Path
    ports: tuple[int, int]
    namespace: dict[str, Any] = field(default_factory=dict)
    server: LiveServer | None = None
    said: str = ""
    _running: ExitStack = field(default_factory=ExitStack)

    def follow(self, block: Block) -> None:
        """Run one block. Raises AssertionError with the output if a command fails, or whatever the Python raises."""
        text = self._with_ports(block.text)
        if block.language == "python":
            with chdir(ROOT):
                exec(compile(text, f"line {block.line}", "exec"), self.namespace)
            return
        for command in Block("console", text, block.line, None).commands:
            self._command(command)

    def follow_page(self, page: Path, stand_ins: Mapping[str, str] | None = None) -> int:
        """Run every block of a page, and stop; how many there were. stand_ins: words of the page -> ours."""
        assert unaccounted(page) == []
        blocks = runnable(page)
        try:
            for block in blocks:
                text = block.text
                for word, meant in (stand_ins or {}).items():
                    text = text.replace(word, meant)
                self.follow(replace(block, text=text))
        finally:
            self.close()
        return len(blocks)

    def close(self) -> None:
        """Stop the server that still runs."""
        self._running.close()

    def _command(self, command: str) -> None:
        words = shlex.split(command)
        if words[0] == "make" and words[1] != "serve":
            self._shell(f"make --no-print-directory -n {words[1]}")
        elif words[0] == "make":
            self._serve(shlex.split(self._shell("make --no-print-directory -n serve").splitlines()[-1]))
        elif words[:2] in (["bentoml", "serve"], ["pressroom", "serve"]) and "--print-config" not in words:
            self._serve([str(Path(sys.executable).with_name(words[0])), *words[1:]])
        else:
            self.said += self._shell(command)

    def _serve(self, command: list[str]) -> None:
        self._running.close()
        log = self.scratch / f"server-{len(list(self.scratch.iterdir()))}.log"
        self.server = self._running.enter_context(
            running_server(self.home, log, command=command, cwd=ROOT, ports=self.ports)
        )

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=ROOT, env=self._environment(), capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        settings = {"PRESSROOM_PORT": str(self.ports[0]), "PRESSROOM_GRPC_PORT": str(self.ports[1])}
        environment = clean_environment(self.home, settings)
        return environment | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}

    def _with_ports(self, text: str) -> str:
        return text.replace(":3000", f":{self.ports[0]}").replace(":3001", f":{self.ports[1]}")
