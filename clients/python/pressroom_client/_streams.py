"""Text as it is made: iterators over a stream's pieces, blocking and awaited.

A stream holds a connection until it has ended or is closed; leaving it early tells the server to stop. `result` is
what its pieces add up to.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import Protocol, Self

from ._error_mapping import stream_error
from ._errors import APIConnectionError, UnexpectedAnswer
from ._text import Transcript
from ._text_types import TextPiece, TextResult

_DATA = "data:"
_END = "[DONE]"


class Lines(Protocol):
    """The lines of a response that is still coming."""

    request: str
    request_id: str

    def __iter__(self) -> Iterator[str]: ...
    def close(self) -> None: ...


class AsyncLines(Protocol):
    """The lines of a response that is still coming."""

    request: str
    request_id: str

    def __aiter__(self) -> AsyncIterator[str]: ...
    async def aclose(self) -> None: ...


class _Reading:
    """What both streams share: lines in, pieces out."""

    def __init__(self, request: str, request_id: str) -> None:
        self._request = request
        self.request_id = request_id
        self._transcript = Transcript(request_id)
        self._ended = False

    @property
    def result(self) -> TextResult:
        """Everything the stream has brought so far; whole once it has ended."""
        return self._transcript.result()

    def _pieces(self, line: str) -> list[TextPiece]:
        """Of one line. Raises the server's error if the line carries one."""
        if not line.startswith(_DATA):
            return []
        data = line[len(_DATA) :].strip()
        if data == _END:
            self._ended = True
            return []
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise UnexpectedAnswer(
                f"an event is not JSON: {data[:60]!r}", request=self._request, request_id=self.request_id
            ) from error
        if "error" in chunk:
            raise stream_error(data.encode(), request=self._request, request_id=self.request_id)
        return self._transcript.read(chunk)

    def _check_end(self) -> None:
        if not self._ended:
            raise APIConnectionError(
                "the stream broke off", hint="ask again", request=self._request, request_id=self.request_id
            )


class TextStream(_Reading):
    """Iterate it for `TextPiece`s; use it in `with` if you may leave early."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines.request, lines.request_id)
        self._lines = lines
        self._iterator = self._read()

    def __iter__(self) -> Iterator[TextPiece]:
        return self._iterator

    def __next__(self) -> TextPiece:
        return next(self._iterator)

    def _read(self) -> Generator[TextPiece]:
        try:
            for line in self._lines:
                yield from self._pieces(line)
                if self._ended:
                    break
            self._check_end()
        finally:
            self._lines.close()

    def text(self) -> Iterator[str]:
        """Only the text of the pieces, as it comes."""
        return (piece.text for piece in self if piece.text)

    def close(self) -> None:
        """Stop: the server cancels what is left."""
        self._iterator.close()
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncTextStream(_Reading):
    """Iterate it with `async for`; use it in `async with` if you may leave early."""

    def __init__(self, lines: AsyncLines) -> None:
        super().__init__(lines.request, lines.request_id)
        self._lines = lines
        self._iterator = self._read()

    def __aiter__(self) -> AsyncIterator[TextPiece]:
        return self._iterator

    async def __anext__(self) -> TextPiece:
        return await anext(self._iterator)

    async def _read(self) -> AsyncGenerator[TextPiece]:
        try:
            async for line in self._lines:
                for piece in self._pieces(line):
                    yield piece
                if self._ended:
                    break
            self._check_end()
        finally:
            await self._lines.aclose()

    async def text(self) -> AsyncIterator[str]:
        """Only the text of the pieces, as it comes."""
        async for piece in self:
            if piece.text:
                yield piece.text

    async def close(self) -> None:
        """Stop: the server cancels what is left."""
        await self._iterator.aclose()
        await self._lines.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
