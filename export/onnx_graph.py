"""A network as an ONNX graph: one self-contained file, dynamic where the network is, the same bytes every time.

In   x_enc       float32 [batch, L, variates]   scaled values
     x_mark_enc  float32 [batch, L, marks]      calendar marks; width 0 = none; only for networks that read the calendar
Out  forecast    float32 [batch, H, variates]   scaled values

Dynamic axes: batch always; variates if the weights do not depend on them; marks where there are any.
The exporter's records of source files, stack traces and module names are removed: a graph carries numbers, no paths.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from export.errors import ConversionError

OPSET = 20
OUTPUT = "forecast"
_TRACE_BATCH, _TRACE_EXTRA = 3, 3  # example sizes; none may be 0 or 1, which the tracer would take for constants


@dataclass(frozen=True, kw_only=True)
class GraphShape:
    """Axes of the graph.

    variates     their number, or None for any
    marks        M the network was trained with, 0 for none; a request may leave them out (width 0)
    marks_ahead  steps of the horizon that have marks too: then M is fixed, and marks are never left out
    """

    look_back: int
    variates: int | None
    marks: int
    marks_ahead: int = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("x_enc", "x_mark_enc") if self.marks else ("x_enc",)


def convert(network: nn.Module, shape: GraphShape, path: Path) -> None:
    """Write a forecaster to `path`. Raises ConversionError with the exporter's reason."""
    write_graph(
        network.eval(),
        _example(shape),
        path,
        inputs=shape.inputs,
        outputs=(OUTPUT,),
        dynamic=_dynamic(shape),
        title="forecaster",
        remedy="use --runtime torch",
    )


def write_graph(
    network: nn.Module,
    example: tuple[Tensor, ...],
    path: Path,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    dynamic: tuple[Any, ...],
    title: str,
    remedy: str = "",
    translations: Mapping[Any, Any] | None = None,
) -> None:
    """Trace a network on an example and write it to `path`. Raises ConversionError with the exporter's reason.

    dynamic       torch.export's dynamic shapes, one entry an argument of `forward`
    translations  ways of our own to write an operator
    """
    try:
        with quiet(), torch.inference_mode():
            program = torch.onnx.export(
                network,
                example,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_shapes=dynamic,
                custom_translation_table=None if translations is None else dict(translations),
                optimize=True,
                verbose=False,
            )
    except Exception as error:  # whatever the exporter meets, the caller needs one sentence
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConversionError(f"the network cannot become an ONNX graph: {reason}", remedy) from error
    if program is None:
        raise ConversionError("the exporter returned no graph", remedy)
    model = anonymous(program.model_proto, title)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _example(shape: GraphShape) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    variates = shape.variates or _TRACE_EXTRA
    x_enc = torch.randn(_TRACE_BATCH, shape.look_back, variates, generator=generator)
    if not shape.marks:
        return (x_enc,)
    marks = shape.marks if shape.marks_ahead else max(shape.marks, 2)
    return x_enc, torch.rand(_TRACE_BATCH, shape.look_back + shape.marks_ahead, marks, generator=generator) - 0.5


def _dynamic(shape: GraphShape) -> tuple[dict[int, Any], ...]:
    batch = torch.export.Dim("batch", min=1)
    axes: dict[int, Any] = {0: batch}
    if shape.variates is None:
        axes[2] = torch.export.Dim("variates", min=1)
    if not shape.marks:
        return (axes,)
    if shape.marks_ahead:
        return axes, {0: batch}
    return axes, {0: batch, 2: torch.export.Dim("marks", min=0)}


def anonymous(model: onnx.ModelProto, title: str) -> onnx.ModelProto:
    """Drop everything that tells where and by what the graph was made; computation is untouched."""
    del model.metadata_props[:]
    model.doc_string, model.producer_version = "", ""
    model.producer_name = "pressroom"
    graph = model.graph
    graph.name, graph.doc_string = title, ""
    del graph.metadata_props[:]
    del graph.value_info[:]
    for entry in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        entry.doc_string = ""
        del entry.metadata_props[:]
    return model


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's progress lines and advice off the caller's streams."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
