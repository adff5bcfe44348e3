"""Ways to keep a model busy: many rows in one request, through a server that runs them one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import etth1
from live_server import LiveServer, eventually
from raw_http import RawConnection
from tensor_cases import as_binary, history

ONE_BY_ONE = {
    "PRESSROOM_MAX_BATCH_ROWS": "1",
    "PRESSROOM_MAX_REQUEST_ROWS": "3000",
    "PRESSROOM_MAX_QUEUE_ROWS": "3000",
    "PRESSROOM_BODY_LIMIT_BYTES": str(64 * 2**20),
}
INFER = f"/v2/models/{etth1.CARD}/infer"


def queued(server: LiveServer, model: str = etth1.CARD) -> float:
    """Rows waiting for the model, as the server's metrics say."""
    return server.metric("pressroom_queue_rows", model=model)


def big_request(rows: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a raw-tensor request of that many rows."""
    document, raw = as_binary([history(etth1.history(*[etth1.START] * rows))])
    text = json.dumps(document).encode()
    return text + raw, {"Inference_Header_Content_Length": str(len(text))}


@contextmanager
def occupied(server: LiveServer, rows: int = 2000) -> Iterator[RawConnection]:
    """The model (CARD) busy with a request of so many rows; afterwards its caller goes away and the queue empties."""
    body, headers = big_request(rows)
    with RawConnection(server) as connection:
        connection.post(INFER, body, **headers)
        eventually(lambda: queued(server) > rows / 2, "the model is busy")
        yield connection
    eventually(lambda: queued(server) == 0, "the queue is empty once its caller has gone")
