"""Writes the tiny family's artifacts into the store of BENTOML_HOME: tiny-a:1 (y = 2x), tiny-a:2 (y = 3x), tiny-b:1.

The digests are real, the parity certificate is not: there is no official network behind them.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from export.artifact import EXAMPLE, PARITY, Manifest, Official, Paper, Runtime, Signature, Source, TensorSpec
from export.store import file_entries, store

WEIGHTS = "weights.bin"
MODELS = (("tiny-a", "1", 2.0), ("tiny-a", "2", 3.0), ("tiny-b", "1", 2.0))


def press(name: str, version: str, factor: float) -> None:
    """Store one of them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tolerance = {"atol": 0.0, "rtol": 0.0}
        example = {"request": {"x": [0.0]}, "response": {"y": [0.0]}, "tolerance": tolerance}
        certificate = {"verdict": "pass", "max_abs": 0.0, "tolerance": tolerance, "cases": []}
        (folder / WEIGHTS).write_bytes(bytes(8))
        (folder / EXAMPLE).write_text(json.dumps(example))
        (folder / PARITY).write_text(json.dumps(certificate))
        make = partial(_manifest, name, factor, folder)
        store(make, folder, name=name, version=version, verdict="pass")


def _manifest(name: str, factor: float, folder: Path, version: str) -> Manifest:
    def tensor(letter: str) -> TensorSpec:
        return TensorSpec(name=letter, dtype="FP32", shape=["batch", 1], unit="1", meaning=letter)

    return Manifest(
        name=name,
        version=version,
        family="tiny",
        architecture="multiplication",
        paper=Paper(title="none", venue="none", url="none"),
        official=Official(repository="none", commit="none", licence="none"),
        source=Source(file=WEIGHTS, format="safetensors", sha256="0" * 64, tensors=0),
        hyper_parameters={},
        signature=Signature(inputs=[tensor("x")], outputs=[tensor("y")]),
        request="numbers",
        pipeline=["multiply"],
        settings={"factor": factor},
        runtime=Runtime(kind="onnx", file=WEIGHTS),
        files=file_entries(folder),
    )


if __name__ == "__main__":
    for one in MODELS:
        press(*one)
