"""BentoML as it comes: a batchable API that takes an array, JSON in and out. POST /inference.

bentoml serve bentoml_peer:Peer
"""

from __future__ import annotations

import bentoml
import numpy as np
from session import Model, description

_TOLD = description()


@bentoml.service(workers=1)
class Peer:
    """A batchable API takes one argument, so all inputs of a row stand behind each other in it."""

    def __init__(self) -> None:
        self._model = Model()

    @bentoml.api(route="/inference", batchable=True, max_batch_size=_TOLD["max_batch_rows"])
    def infer(self, rows: np.ndarray) -> np.ndarray:
        return self._model.run_flat(rows.astype(np.float32))
