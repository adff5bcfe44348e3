"""Run exported weights once: an ONNX graph in onnxruntime, or our network in torch, always on one CPU thread.

The exporter's own small runtime, so that a certificate is made without the serving code it vouches for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from export.artifact import Artifact
from export.errors import ConversionError

Tensors = Mapping[str, npt.NDArray[np.float32]]
Runner = Callable[[Tensors], npt.NDArray[np.float32]]
Arrays = dict[str, npt.NDArray[Any]]
NamedRunner = Callable[[Arrays], Arrays]

GRAPH_FILE, WEIGHTS_FILE = "model.onnx", "network.safetensors"


def onnx_runner(graph: Path) -> Runner:
    """A function from x_enc [B, L, N] (and x_mark_enc [B, L, M]) to the forecast [B, H, N]."""
    session = _session(graph)

    def run(tensors: Tensors) -> npt.NDArray[np.float32]:
        answer: npt.NDArray[np.float32] = session.run(None, dict(tensors))[0]
        return answer

    return run


def named_runner(graph: Path, *, optimised: bool = True) -> NamedRunner:
    """A graph as a function from named tensors to named tensors."""
    session = _session(graph, optimised=optimised)
    names = [output.name for output in session.get_outputs()]

    def run(tensors: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, tensors), strict=True))

    return run


def _session(graph: Path, *, optimised: bool = True) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3 if optimised else 4
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def torch_runner(weights: Path, architecture: str, hyper_parameters: Mapping[str, Any]) -> Runner:
    """The same function from `network.safetensors` (our parameter names) and the official hyper-parameters."""
    from safetensors.torch import load_file

    from models.forecasting.registry import architecture as find

    record = find(architecture)
    network = record.build(record.parse_config(hyper_parameters))
    network.load_state_dict(load_file(weights), strict=True)
    return module_runner(network)


def module_runner(network: Any) -> Runner:
    """A torch module in eager mode as such a function; marks of width 0 are passed on as they are."""
    import torch

    def run(tensors: Tensors) -> npt.NDArray[np.float32]:
        with one_thread(), torch.inference_mode():
            answer: npt.NDArray[np.float32] = network(
                *(torch.from_numpy(np.array(t)) for t in tensors.values())
            ).numpy()
        return answer

    return run


def artifact_runner(artifact: Artifact) -> Runner:
    """The runner of a stored artifact. Raises ConversionError for a runtime this version does not know."""
    manifest = artifact.manifest
    file = artifact.file(manifest.runtime.file)
    if manifest.runtime.kind == "onnx":
        return onnx_runner(file)
    if manifest.runtime.kind == "torch":
        return torch_runner(file, manifest.architecture, manifest.hyper_parameters)
    raise ConversionError(f"{manifest.tag}: unknown runtime {manifest.runtime.kind!r}")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread inside the block: repeatable sums, and no quarrel over two cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
