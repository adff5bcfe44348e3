"""mosec: a Rust front end, one worker process, a row's bytes in and out. POST /inference."""

from __future__ import annotations

import os

from mosec import Server, Worker
from session import HOST, Model, description, port


class Inference(Worker):  # type: ignore[misc]
    """mosec takes the rows of up to `max_batch_size` requests to one `forward`."""

    def __init__(self) -> None:
        self._model = Model()

    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: list[bytes]) -> list[bytes]:
        return self._model.run_rows(data)


if __name__ == "__main__":
    os.environ |= {"MOSEC_ADDRESS": HOST, "MOSEC_PORT": str(port()), "MOSEC_LOG_LEVEL": "warning"}
    told = description()
    server = Server()
    server.append_worker(
        Inference, num=1, max_batch_size=told["max_batch_rows"], max_wait_time=max(1, round(told["max_delay_ms"]))
    )
    server.run()
