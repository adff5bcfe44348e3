"""Where the arithmetic happens: an onnxruntime session, or a torch module where a graph cannot be had.

Threads are capped and onnxruntime's spinning is off: under contention spinning threads turn a 2 ms call into 285 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import onnxruntime as ort

from services.core.tensors import Tensors

if TYPE_CHECKING:
    import torch


class Runtime(Protocol):
    """Runs one forward pass: named tensors in, named tensors out; first axis is the batch."""

    def run(self, tensors: Tensors) -> Tensors: ...


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """threads: of one forward pass, >= 1; cuda: run on the first CUDA device if there is one."""

    threads: int = 1
    cuda: bool = False


class OnnxRuntime:
    """An ONNX graph in onnxruntime."""

    def __init__(self, graph: Path, options: RuntimeOptions) -> None:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.inter_op_num_threads = 1
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        settings.log_severity_level = 3
        wanted = ["CUDAExecutionProvider"] if options.cuda else []
        available = [p for p in wanted if p in ort.get_available_providers()]
        self._session = ort.InferenceSession(str(graph), settings, providers=[*available, "CPUExecutionProvider"])
        self._outputs = [o.name for o in self._session.get_outputs()]

    @property
    def inputs(self) -> list[str]:
        """Names of the tensors it takes."""
        return [i.name for i in self._session.get_inputs()]

    def run(self, tensors: Tensors) -> Tensors:
        return dict(zip(self._outputs, self._session.run(self._outputs, tensors), strict=True))


class TorchRuntime:
    """A torch module in eager mode; `outputs` names what it returns, in order."""

    def __init__(self, module: torch.nn.Module, outputs: list[str], options: RuntimeOptions) -> None:
        import torch

        torch.set_num_threads(options.threads)
        self._torch = torch
        self._device = torch.device("cuda" if options.cuda and torch.cuda.is_available() else "cpu")
        self._module = module.eval().to(self._device)
        self._outputs = outputs

    def run(self, tensors: Tensors) -> Tensors:
        with self._torch.inference_mode():
            arrays = [self._torch.from_numpy(np.array(t)).to(self._device) for t in tensors.values()]
            answer = self._module(*arrays)
        answers = answer if isinstance(answer, tuple) else (answer,)
        return {name: a.cpu().numpy() for name, a in zip(self._outputs, answers, strict=True)}
