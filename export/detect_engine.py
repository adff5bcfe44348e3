"""The engine opened from an artifact's files, on one CPU thread; torch is not needed."""

from __future__ import annotations

from pathlib import Path

from safetensors.numpy import load_file

from export.runner import named_runner
from models.clipself.pipeline import engine
from models.clipself.pipeline.engine import Engine, Graphs
from models.clipself.pipeline.spec import DetectSpec


def open_engine(folder: Path, spec: DetectSpec) -> Engine:
    """The engine over an artifact's files, on one CPU thread."""
    files = {file.name for file in folder.iterdir()}
    graphs = Graphs.of(spec, files, lambda name: named_runner(folder / name), load_file(folder / engine.ARRAYS))
    return Engine(spec, graphs)
