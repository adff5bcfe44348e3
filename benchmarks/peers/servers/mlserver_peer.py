"""MLServer: a custom runtime with adaptive batching, Open Inference Protocol over REST (JSON) and gRPC.

PEER_GRPC_PORT is where gRPC listens. Run as a program it writes MLServer's two settings files and starts it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from session import HOST, Model, description, port


class Inference(MLModel):  # type: ignore[misc]
    """MLServer joins the tensors of up to `max_batch_size` requests."""

    async def load(self) -> bool:
        self._model = Model()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        answers = self._model.run({one.name: NumpyCodec.decode_input(one) for one in payload.inputs})
        outputs = [
            NumpyCodec.encode_output(slot.name, answer)
            for slot, answer in zip(self._model.outputs, answers, strict=True)
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)


if __name__ == "__main__":
    folder, told = Path(tempfile.mkdtemp()), description()
    server = {
        "host": HOST,
        "http_port": port(),
        "grpc_port": int(os.environ["PEER_GRPC_PORT"]),
        "metrics_endpoint": None,
        "debug": False,
    }
    model = {
        "name": told["name"],
        "implementation": "mlserver_peer.Inference",
        "max_batch_size": told["max_batch_rows"],
        "max_batch_time": told["max_delay_ms"] / 1e3,
    }
    (folder / "settings.json").write_text(json.dumps(server))
    (folder / "model-settings.json").write_text(json.dumps(model))
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    program = Path(sys.executable).with_name("mlserver")
    os.execv(program, [str(program), "start", str(folder)])
