"""The watermark calls of both clients: text that carries a message, and which message a text carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from ._config import Retry, Timeout
from ._exchange import Exchange, Wire
from ._text import Messages, TextOptions
from ._watermark import Message, Texts, decode_call, generate_call, verify_call
from ._watermark_types import MarkedText, WatermarkReadings, WatermarkVerifications

T = TypeVar("T")


class WatermarkMethods:
    """Of Client."""

    if TYPE_CHECKING:
        _wire: Wire

        def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        messages: Messages | None = None,
        watermark: Message | None = None,
        ignore_eos: bool | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[TextOptions],
    ) -> MarkedText:
        """Generate one text that carries a message.

        prompt      text or token ids to continue; or `messages` of a chat, a string being one of the user
        watermark   the message: a number; a short label, which the server's registry keeps; or the route's object,
                    {"message" | "bits" | "label": ..., "key_id": ..., "delta": ...}. None where the server's own
                    policy says what is embedded
        ignore_eos  True: go on after the model's end, so that all of the message is embedded
        model       the watermarking scheme; None: the server's only one (HTTP; over gRPC, name it)
        options     how to generate, see TextOptions; max_tokens None: as many as the message needs

        Raises InvalidRequest (a message too long for max_tokens, with the arithmetic), NotSupported, EmptyPrompt,
        ContextLengthExceeded, ModelNotFound, QueueFull ...
        """
        asked: dict[str, Any] = {**options, "ignore_eos": ignore_eos}
        call = generate_call(prompt, messages, watermark, model, version, asked)
        return self._run(self._wire.task(call), timeout, retries)

    def decode_watermark(
        self,
        texts: Texts,
        *,
        message_bits: int | None = None,
        key_id: str | None = None,
        candidates: Sequence[int] | Literal["registered"] | None = None,
        top: int | None = None,
        return_marks: bool | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> WatermarkReadings:
        """Read which message one or several texts carry, if any.

        message_bits  width of the message; None: one segment of the scheme
        key_id        try this key only; None: all the server knows
        candidates    look for these messages of one segment only, which takes less text; "registered": for all that
                      the server's registry knows
        top           candidates listed a segment
        return_marks  tell of every token whether it fits the likeliest message

        Raises InvalidRequest (a text too long to be read at once), NotSupported, RateLimited, QueueFull ...
        """
        asked = {
            "message_bits": message_bits, "key_id": key_id, "candidates": candidates, "top": top,
            "return_marks": return_marks,
        }  # fmt: skip
        call = decode_call(texts, model, version, asked)
        return self._run(self._wire.task(call), timeout, retries)

    def verify_watermark(
        self,
        texts: Texts,
        expected: Message | Iterable[Message],
        *,
        key_id: str | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> WatermarkVerifications:
        """Check one or several texts for messages they should carry; takes far less text than `decode_watermark`.

        expected  a message as in `generate`, or several of them

        Raises as `decode_watermark`; InvalidRequest for a label nothing was ever marked with.
        """
        call = verify_call(texts, expected, key_id, model, version)
        return self._run(self._wire.task(call), timeout, retries)


class AsyncWatermarkMethods:
    """Of AsyncClient."""

    if TYPE_CHECKING:
        _wire: Wire

        async def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    async def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        messages: Messages | None = None,
        watermark: Message | None = None,
        ignore_eos: bool | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[TextOptions],
    ) -> MarkedText:
        """As `Client.generate`."""
        asked: dict[str, Any] = {**options, "ignore_eos": ignore_eos}
        call = generate_call(prompt, messages, watermark, model, version, asked)
        return await self._run(self._wire.task(call), timeout, retries)

    async def decode_watermark(
        self,
        texts: Texts,
        *,
        message_bits: int | None = None,
        key_id: str | None = None,
        candidates: Sequence[int] | Literal["registered"] | None = None,
        top: int | None = None,
        return_marks: bool | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> WatermarkReadings:
        """As `Client.decode_watermark`."""
        asked = {
            "message_bits": message_bits, "key_id": key_id, "candidates": candidates, "top": top,
            "return_marks": return_marks,
        }  # fmt: skip
        call = decode_call(texts, model, version, asked)
        return await self._run(self._wire.task(call), timeout, retries)

    async def verify_watermark(
        self,
        texts: Texts,
        expected: Message | Iterable[Message],
        *,
        key_id: str | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> WatermarkVerifications:
        """As `Client.verify_watermark`."""
        call = verify_call(texts, expected, key_id, model, version)
        return await self._run(self._wire.task(call), timeout, retries)
