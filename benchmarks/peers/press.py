"""Our side of a subject: its graph as an artifact of the family `onnx` in the benchmarks' store."""

from __future__ import annotations

from benchmarks.peers.subjects import Subject


def press(subject: Subject) -> None:
    """Press (or find pressed)."""
    from benchmarks.server import ROOT
    from export.environment import versions
    from export.onnx_press import OnnxJob
    from export.onnx_press import press as export
    from pressroom import stamps

    files = [subject.graph, subject.samples, *sorted((ROOT / "export").glob("onnx*.py"))]
    job = OnnxJob(file=subject.graph, name=subject.name, example=subject.samples, reference="runtime")
    stamps.once(subject.name, stamps.recipe(files, versions()), lambda: export(job).stored)
