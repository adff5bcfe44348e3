"""LitServe: its own batching, a row's numbers as JSON. POST /inference."""

from __future__ import annotations

from typing import Any

import litserve
import numpy as np
from session import HOST, Array, Model, description, port


class Inference(litserve.LitAPI):  # type: ignore[misc]
    """LitServe stacks decoded rows to a batch, and unstacks what `predict` returns."""

    def setup(self, device: str) -> None:
        self._model = Model()

    def decode_request(self, request) -> Array:  # type: ignore[no-untyped-def]  # annotated, LitServe asks FastAPI
        return np.array(request["row"], dtype=np.float32)

    def predict(self, x: Array) -> Array:
        return self._model.run_flat(x)

    def encode_response(self, output: Array) -> dict[str, Any]:
        return {"row": output.tolist()}


if __name__ == "__main__":
    told = description()
    api = Inference(
        api_path="/inference", max_batch_size=told["max_batch_rows"], batch_timeout=told["max_delay_ms"] / 1e3
    )
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True)
    server.run(host=HOST, port=port(), generate_client_file=False, log_level="warning", access_log=False)
