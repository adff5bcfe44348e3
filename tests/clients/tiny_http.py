"""The HTTP face of the tiny service: a plain ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import tiny_images
import tiny_records
import tiny_text
from tiny_service import DIGEST, HORIZON, MODEL, OUTPUTS, STAGES, TENSORS, Behaviour, RefusalError, Seen, forecast

Json = dict[str, Any]
Receive = Callable[[], Awaitable[Json]]
Send = Callable[[Json], Awaitable[None]]
LENGTH = "inference-header-content-length"


def app(behaviour: Behaviour) -> Callable[..., Awaitable[None]]:
    """The application; `behaviour` steers it."""

    async def call(scope: Json, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request_id = headers.get("x-request-id", "made-by-server")
        body = await _body(receive)
        seen = Seen(f"{scope['method']} {scope['raw_path'].decode()}", headers, body)
        try:
            behaviour.meet(seen)
            if behaviour.stall:
                await asyncio.to_thread(behaviour.release.wait, 10)
            if seen.name in tiny_text.ROUTES and json.loads(body).get("stream"):
                await _stream(send, request_id, list(tiny_text.events(json.loads(body), request_id)), behaviour)
                return
            said, content = _answer(seen, request_id)
            status = 200
        except RefusalError as refusal:
            status, said = refusal.http, refusal.headers
            content = refusal.raw
            if content is None:
                content = json.dumps({"error": {**refusal.envelope, "request_id": request_id}}).encode()
        await _reply(send, status, {"x-request-id": request_id, **said}, content, behaviour)

    return call


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    return body


async def _reply(send: Send, status: int, headers: dict[str, str], content: bytes, behaviour: Behaviour) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    if behaviour.trickle:
        for at in range(len(content)):
            await send({"type": "http.response.body", "body": content[at : at + 1], "more_body": True})
            await asyncio.sleep(0.02)
    await send({"type": "http.response.body", "body": b"" if behaviour.trickle else content})


async def _stream(send: Send, request_id: str, events: list[bytes], behaviour: Behaviour) -> None:
    """Events, cut where no event ends."""
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-request-id", request_id.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    content = b"".join(events)
    for at in range(0, len(content), 7):
        await send({"type": "http.response.body", "body": content[at : at + 7], "more_body": True})
        behaviour.sent += 1
    await send({"type": "http.response.body", "body": b""})


def _answer(seen: Seen, request_id: str) -> tuple[dict[str, str], bytes]:
    if seen.name in tiny_text.ROUTES:
        return {}, json.dumps(tiny_text.answer(json.loads(seen.body), request_id)).encode()
    if seen.name in tiny_records.ROUTES:
        return {}, tiny_records.dumped(seen.body, request_id)
    if seen.name in tiny_images.ROUTES:
        return {}, tiny_images.dumped(seen.body, request_id)
    if seen.name == "POST /v1/forecast":
        return {}, json.dumps(forecast(json.loads(seen.body), request_id)).encode()
    if seen.name.endswith("/infer"):
        return _echo(seen, request_id)
    routes: dict[str, Any] = {
        "GET /v2": {"name": "tiny", "version": "1.0", "extensions": ["binary_tensor_data"]},
        "GET /v2/health/live": {},
        "GET /v2/health/ready": {},
        "GET /v2/models/counter/ready": {},
        "GET /v2/models/counter": _metadata(["1", "2"]),
        "GET /v2/models/counter/versions/1": _metadata(["1"]),
        "GET /v1/models": {"object": "list", "data": [MODEL]},
        "GET /v1/models/counter": MODEL,
        "GET /v1/models/counter:1": MODEL | {"version": "1"},
    }
    if seen.name not in routes:
        code = "model_not_found" if "/models/" in seen.name else "route_not_found"
        raise RefusalError(code, 404, "NOT_FOUND")
    return {}, json.dumps(routes[seen.name]).encode()


def _metadata(versions: list[str]) -> Json:
    return {"name": "counter", "versions": versions, "platform": "onnx", "inputs": TENSORS, "outputs": OUTPUTS}


def _echo(seen: Seen, request_id: str) -> tuple[dict[str, str], bytes]:
    """Every tensor comes back under its own name, as the bytes it was sent as."""
    length = int(seen.headers[LENGTH])
    header, tail = json.loads(seen.body[:length]), seen.body[length:]
    asked = [output["name"] for output in header.get("outputs", header["inputs"])]
    outputs, content = [], b""
    for tensor in header["inputs"]:
        size = tensor["parameters"]["binary_data_size"]
        if tensor["name"] in asked:
            outputs.append(tensor)
            content += tail[:size]
        tail = tail[size:]
    parameters = {"request_id": request_id, "digest": DIGEST, "batch_rows": 1, "note": HORIZON, **STAGES}
    name, _, version = seen.name.split("/models/")[1].removesuffix("/infer").partition("/versions/")
    answer = {"model_name": name, "model_version": version or "2", "outputs": outputs, "parameters": parameters}
    text = json.dumps(answer).encode()
    return {LENGTH: str(len(text)), "content-type": "application/octet-stream"}, text + content
