"""What every recipe needs: a bar that tells how far it is, and a state that is written whole or not at all.

A recipe draws the randomness of step n from `generator(seed, n)` alone. So its state is weights, optimizer and n, and
a resumed run ends in the same bits as one that was never interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

Tell = Callable[[int, str], None]  # steps done, a few words behind the bar


def generator(seed: int, step: int) -> np.random.Generator:
    """The randomness of one step, whatever came before."""
    return np.random.default_rng([seed, step])


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Tensors and plain containers, in place only once every byte is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load_state(path: Path) -> dict[str, Any] | None:
    """What `save_state` wrote; None where nothing was saved yet."""
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


@contextmanager
def progress(what: str, total: int) -> Iterator[Tell]:
    """A bar on a terminal; elsewhere a line each tenth of the way. Both on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen, words = Console(stderr=True), TextColumn("{task.fields[words]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), words)
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bars:
        task = bars.add_task(what, total=total, words="")

        def tell(done: int, words: str) -> None:
            bars.update(task, completed=done, words=words)
            if not screen.is_terminal and (done * 10) // total > ((done - 1) * 10) // total:
                print(f"{what} {done}/{total}  {words}", file=sys.stderr, flush=True)

        yield tell
