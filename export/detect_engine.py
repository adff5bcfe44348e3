"""The engine opened from an artifact's files, on one CPU thread; torch is not needed."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
from safetensors.numpy import load_file

from models.clipself.pipeline import engine
from models.clipself.pipeline.engine import Engine, Graphs, Run, Tensors
from models.clipself.pipeline.spec import DetectSpec


def open_engine(folder: Path, spec: DetectSpec) -> Engine:
    """The engine over an artifact's files, on one CPU thread."""
    files = {file.name for file in folder.iterdir()}
    graphs = Graphs.of(spec, files, lambda name: named_runner(folder / name), load_file(folder / engine.ARRAYS))
    return Engine(spec, graphs)


def named_runner(graph: Path) -> Run:
    """A graph as a function from named tensors to named tensors."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(tensors: Tensors) -> Tensors:
        return dict(zip(names, session.run(names, tensors), strict=True))

    return run
