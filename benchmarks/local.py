"""The same graph in this process, without a server: what the answers must be, and what the arithmetic alone costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.windows import Windows
from export.artifact import open_artifact
from models.forecasting.pipeline import Tensors, to_raw, to_tensors
from models.forecasting.spec import ForecastSpec
from services.core.runtime import OnnxRuntime, RuntimeOptions

CHUNK = 64


@dataclass(frozen=True)
class LocalModel:
    """An artifact's graph in onnxruntime, one thread, spinning off: the server's own session settings."""

    name: str
    version: str
    digest: str
    spec: ForecastSpec
    runtime: OnnxRuntime

    def tensors(self, windows: Windows, part: slice) -> Tensors:
        """The network's inputs for some of the windows; float32 raw units first, as they travel as FP32."""
        history = windows.history[part].astype(np.float32)
        return to_tensors(history, windows.stamps[part] if self.spec.takes_marks else None, self.spec)

    def forecast(self, windows: Windows) -> npt.NDArray[np.float64]:
        """Forecasts [W, H, C] in raw units."""
        parts = [slice(start, start + CHUNK) for start in range(0, len(windows), CHUNK)]
        return np.concatenate([self._raw(self.tensors(windows, part)) for part in parts])

    def _raw(self, tensors: Tensors) -> npt.NDArray[np.float64]:
        return to_raw(self.runtime.run({**tensors})["forecast"].astype(np.float32), self.spec)

    def cpu_ms_per_row(self, windows: Windows, rows: int, seconds: float) -> float:
        """CPU milliseconds a row of the graph alone, in batches of `rows`, measured for about `seconds`."""
        return cpu_ms_per_row(self.runtime.run, self.tensors(windows, slice(0, rows)), rows, seconds)


def cpu_ms_per_row(
    run: Callable[[dict[str, Any]], object], tensors: Mapping[str, Any], rows: int, seconds: float
) -> float:
    """CPU milliseconds a row of this thread, over about `seconds` of passes after a first one."""
    run({**tensors})
    until, passes, began = time.perf_counter() + seconds, 0, time.thread_time()
    while time.perf_counter() < until or passes == 0:
        run({**tensors})
        passes += 1
    return (time.thread_time() - began) * 1e3 / (passes * rows)


def local_model(name: str) -> LocalModel:
    """Open an artifact of the current store."""
    artifact = open_artifact(name)
    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    runtime = OnnxRuntime(artifact.file(artifact.manifest.runtime.file), RuntimeOptions(threads=1))
    return LocalModel(artifact.manifest.name, artifact.manifest.version, artifact.digest, spec, runtime)
