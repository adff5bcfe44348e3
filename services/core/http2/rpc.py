"""One gRPC call on its stream: messages in, the handler, messages and status out.

Handlers are grpcio's (`grpc.RpcMethodHandler`) and find here what grpcio's asyncio server would hand them as context.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import grpc

from services.core.http2 import frames
from services.core.http2.headers import START, Head, Metadata, status_fields

if TYPE_CHECKING:
    from services.core.http2.connection import Connection

log = logging.getLogger("pressroom.grpc")

PREFIX = 5  # bytes in front of a message: whether it is compressed, and its length
_INFLATE = {"gzip": 31, "deflate": 15}  # zlib window bits
_LATE = "the deadline passed before the whole message had arrived"


class Ride(Protocol):
    """A call that is answered by callbacks: it ends in `Rpc.reply` or `Rpc.refuse`, or its caller has left."""

    def begin(self) -> None: ...
    def left(self) -> None: ...


class AbortedError(Exception):
    """A handler has ended its call with a status."""


class Rpc:
    """State of one call, and the context its handler is given.

    complete  whether the caller has sent everything
    window    bytes we may send
    """

    __slots__ = (
        "_buffer",
        "_connection",
        "_express",
        "_handler",
        "_messages",
        "_over",
        "_owed",
        "_queued",
        "_ride",
        "_started",
        "_task",
        "_trailing",
        "_waiting",
        "began",
        "complete",
        "head",
        "stream",
        "window",
    )

    def __init__(self, connection: Connection, stream: int, head: Head, window: int) -> None:
        self.stream = stream
        self.head = head
        self.window = window
        self.complete = False
        self.began = perf_counter()
        self._connection = connection
        self._handler: Any = None
        self._express: Express | None = None
        self._ride: Ride | None = None
        self._task: asyncio.Task[None] | None = None
        self._buffer: bytes | bytearray = b""  # of messages that have not come in full
        self._messages: deque[bytes] = deque()
        self._queued = 0  # bytes of them
        self._owed = 0  # bytes received and not yet given back to the caller's window
        self._waiting: asyncio.Future[None] | None = None  # the handler waits for a message
        self._started = False  # the answer's headers are sent
        self._over = False  # the status is sent, or nobody waits for it
        self._trailing: Metadata = ()

    # --- what the connection reports

    def begin(self, handler: Any, express: Express | None = None) -> None:
        """Have the call handled: at once if its messages stream, else when its one message is here.

        express  takes the messages it knows to answer without a task
        """
        self._handler = handler
        self._express = express
        if handler.request_streaming:
            self._run(self._stream)

    def refuse(self, code: grpc.StatusCode, message: str, metadata: Iterable[tuple[str, str | bytes]] = ()) -> None:
        """End a call that no handler needs to see, or that a ride cannot answer."""
        self._ride = None  # it holds this call: both are freed at once, with the message
        self._finish(code, message, metadata)
        self._connection.finished(self)

    def reply(self, raw: bytes, trailing: Metadata) -> None:
        """A ride's answer: at once if the caller has room for it, else as it makes room."""
        self._ride = None
        if self._over:
            return
        self._trailing = trailing
        if self._write_whole(raw):
            self._connection.finished(self)
        else:
            self._run(partial(self._answer, raw))

    def received(self, data: bytes, size: int) -> None:
        """Bytes of messages; size: what they cost the caller's window."""
        if self._over:
            return
        buffer: bytes | bytearray = data
        if self._buffer:  # a large message grows in place
            buffer = self._buffer if isinstance(self._buffer, bytearray) else bytearray(self._buffer)
            buffer += data
        self._buffer = self._cut(buffer)
        self._owed += size
        self._give_room()

    def ended(self) -> None:
        """The caller has sent everything."""
        self.complete = True
        if self._over:
            return
        if self._buffer:
            self.refuse(grpc.StatusCode.INVALID_ARGUMENT, "the call ended within a message")
        elif self._handler.request_streaming:
            self._wake()
        elif len(self._messages) != 1:
            self.refuse(grpc.StatusCode.INVALID_ARGUMENT, f"{len(self._messages)} messages came, this call takes one")
        elif not self._rides():
            self._run(self._single)

    def _rides(self) -> bool:
        """Whether the one message is answered without a task."""
        if self._express is None:
            return False
        self._ride = self._express(self, self._messages[0])
        if self._ride is None:
            return False
        self._messages.clear()  # the ride has it
        self._ride.begin()
        return True

    def left(self) -> None:
        """The caller has cancelled, or is gone."""
        self._over = True
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        ride, self._ride = self._ride, None
        if ride is not None:
            ride.left()

    def sweep(self, now: float) -> None:
        """End the call if it is late: the caller's deadline, or the time for its one message to arrive."""
        if self.head.timeout is not None and now > self.began + self.head.timeout:
            self._late("the deadline passed")
        elif self._task is None and self._ride is None and now > self.began + self._connection.limits.upload_seconds:
            self._late(_LATE)

    def _late(self, message: str) -> None:
        self._cancel()
        self.refuse(grpc.StatusCode.DEADLINE_EXCEEDED, message)

    # --- grpcio's context

    def invocation_metadata(self) -> Metadata:
        return self.head.invocation_metadata

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline, or None."""
        timeout = self.head.timeout
        return None if timeout is None else max(0.0, self.began + timeout - perf_counter())

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        self._trailing = tuple(metadata)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Iterable[tuple[str, str | bytes]] = ()
    ) -> NoReturn:
        """End the call with this status."""
        self._finish(code, details, trailing_metadata)
        raise AbortedError

    async def write(self, message: Any) -> None:
        """Send one of several messages."""
        if not self._started:
            self._started = True
            self._connection.write(frames.frame(frames.HEADERS, frames.END_HEADERS, self.stream, START))
        raw = self._serialized(message)
        data = memoryview(b"\0" + len(raw).to_bytes(4, "big") + raw)
        while data:
            size = await self._connection.room(self, len(data))
            self._connection.write(frames.frame(frames.DATA, 0, self.stream, bytes(data[:size])))
            data = data[size:]

    # --- messages in

    def _cut(self, buffer: bytes | bytearray) -> bytes | bytearray:
        """Take the whole messages out of the buffer; returns the rest."""
        while len(buffer) >= PREFIX and not self._over:
            length = int.from_bytes(buffer[1:PREFIX], "big")
            if length > self._connection.limits.max_message:
                self._too_large(length)
                return b""
            if len(buffer) < PREFIX + length:
                break
            message = bytes(buffer[PREFIX : PREFIX + length])
            self._take(self._inflated(message) if buffer[0] else message)
            buffer = buffer[PREFIX + length :]
        return buffer

    def _take(self, message: bytes | None) -> None:
        if message is None:
            return  # refused
        self._messages.append(message)
        self._queued += len(message)
        self._wake()

    def _inflated(self, message: bytes) -> bytes | None:
        """A compressed message; None if it had to be refused."""
        bits, limit = _INFLATE.get(self.head.encoding), self._connection.limits.max_message
        if bits is None:
            self.refuse(grpc.StatusCode.UNIMPLEMENTED, "messages are read plain, or compressed as gzip or deflate")
            return None
        stream = zlib.decompressobj(bits)
        try:
            plain = stream.decompress(message, limit + 1)
        except zlib.error:
            self.refuse(grpc.StatusCode.INVALID_ARGUMENT, "the message is not what its grpc-encoding says")
            return None
        if len(plain) > limit:
            self._too_large(len(plain))
            return None
        return plain

    def _too_large(self, size: int) -> None:
        limit = self._connection.limits.max_message
        message = f"the message has at least {size} bytes, no more than {limit} are received"
        self.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, message)

    def _give_room(self) -> None:
        """Let the caller send on, unless the handler is far behind."""
        if self._owed > frames.INITIAL_WINDOW and self._queued <= frames.INITIAL_WINDOW and not self.complete:
            self._connection.consumed(self, self._owed)
            self._owed = 0

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next_message(self) -> bytes | None:
        """For a streaming handler: its next message, None after the last."""
        while not self._messages:
            if self.complete:
                return None
            self._waiting = self._connection.loop.create_future()
            await self._waiting
        message = self._messages.popleft()
        self._queued -= len(message)
        self._give_room()
        return message

    # --- the handler

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        self._task = self._connection.loop.create_task(self._guarded(work))

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except AbortedError:
            pass
        except asyncio.CancelledError:
            self._finish(grpc.StatusCode.CANCELLED, "the call was cancelled", ())
        except Exception:
            log.exception("%s failed", self.head.method[:80])
            self._finish(grpc.StatusCode.UNKNOWN, "the call failed", ())
        self._connection.finished(self)

    async def _single(self) -> None:
        request = self.deserialized(self._messages.popleft())
        if self._handler.response_streaming:
            await self._send_all(self._handler.unary_stream(request, self))
        else:
            await self._answer(await self._handler.unary_unary(request, self))

    async def _stream(self) -> None:
        requests = _Requests(self)
        if self._handler.response_streaming:
            await self._send_all(self._handler.stream_stream(requests, self))
        else:
            await self._answer(await self._handler.stream_unary(requests, self))

    async def _send_all(self, answers: Any) -> None:
        """Messages of an asynchronous generator, or of a coroutine that writes by itself."""
        if isinstance(answers, Awaitable):
            await answers
        else:
            async with aclosing(answers):
                async for answer in answers:
                    await self.write(answer)
        if not self._started:
            self._started = True
            self._connection.write(frames.frame(frames.HEADERS, frames.END_HEADERS, self.stream, START))
        self._finish(grpc.StatusCode.OK, "", self._trailing)

    async def _answer(self, answer: Any) -> None:
        """The one message and the status: in one write if the caller has room for it."""
        if self._over:
            return
        raw = self._serialized(answer)
        if not self._write_whole(raw):
            await self.write(answer)
            self._finish(grpc.StatusCode.OK, "", self._trailing)

    def _write_whole(self, raw: bytes) -> bool:
        """Send headers, the one message and the status in one write; False if there is no room for all of it."""
        size = PREFIX + len(raw)
        if self._started or not self._connection.may_send(self, size):
            return False
        self._over = True
        trailers, ends = status_fields(0, "", self._trailing), frames.END_HEADERS | frames.END_STREAM
        parts = (
            frames.header(frames.HEADERS, frames.END_HEADERS, self.stream, len(START)),
            START,
            frames.header(frames.DATA, 0, self.stream, size),
            b"\0",
            len(raw).to_bytes(4, "big"),
            raw,
            frames.header(frames.HEADERS, ends, self.stream, len(trailers)),
            trailers,
        )
        self._connection.write(b"".join(parts))
        return True

    def deserialized(self, raw: bytes) -> Any:
        read = self._handler.request_deserializer
        return raw if read is None else read(raw)

    def _serialized(self, message: Any) -> bytes:
        write = self._handler.response_serializer
        return bytes(message if write is None else write(message))

    def _finish(self, code: grpc.StatusCode, message: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Send the status, unless that was done or nobody waits for it. It always fits into one frame."""
        if self._over:
            return
        self._over = True
        block = status_fields(code.value[0], message, metadata)
        if not self._started:
            block = START + block
        ends = frames.END_HEADERS | frames.END_STREAM
        self._connection.write(frames.frame(frames.HEADERS, ends, self.stream, block))


Express = Callable[[Rpc, bytes], Ride | None]  # None: the message needs its handler


class _Requests(AsyncIterator[Any]):
    """The messages of a streaming call, as its handler iterates over them."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc

    async def __anext__(self) -> Any:
        raw = await self._rpc.next_message()
        if raw is None:
            raise StopAsyncIteration
        return self._rpc.deserialized(raw)
