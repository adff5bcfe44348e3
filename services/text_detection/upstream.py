"""An OpenAI-compatible endpoint that continues texts. The operator names it; no request ever does.

One call a regeneration, so that what fails is one of K. A call has a time limit of its own, is retried where that may
help, and never waits longer than it is told to; an endpoint that keeps failing is given a pause.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from services.core.circuit import Circuit
from services.core.errors import ApiError
from services.core.settings import Settings, SettingsError

Reason = Literal["connection", "timeout", "refused", "overloaded", "failed", "not_understood", "paused"]
REASONS: tuple[Reason, ...] = (
    "connection", "timeout", "refused", "overloaded", "failed", "not_understood", "paused",
)  # fmt: skip
_AGAIN: frozenset[Reason] = frozenset({"connection", "timeout", "overloaded", "failed"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 4.0
_MOST_BYTES = 2**20  # of an answer
_PLEASE = "Continue the following text from where it stops. Write only the continuation.\n\n"


class UpstreamError(Exception):
    """A regeneration did not come. wait_s: what the endpoint asked callers to wait."""

    def __init__(self, reason: Reason, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


@dataclass(frozen=True, kw_only=True)
class UpstreamOptions:
    """Where the endpoint is and how it is asked.

    url       of its API, up to and without /completions
    api       "completions": the text is the prompt; "chat": it is asked to go on, by chat
    at_once   calls at once, of all requests together
    tries     of one call, at least 1
    """

    url: str
    model: str
    api: Literal["completions", "chat"] = "completions"
    key: str = field(default="", repr=False)
    timeout_s: float = 30.0
    tries: int = 3
    at_once: int = 8

    @classmethod
    def of(cls, settings: Settings) -> UpstreamOptions | None:
        """What the server's settings say; None where they name no endpoint."""
        if not settings.text_detect_upstream_url:
            return None
        return cls(
            url=settings.text_detect_upstream_url.rstrip("/"),
            model=settings.text_detect_upstream_model,
            api=settings.text_detect_upstream_api,
            key=read_key(settings.text_detect_upstream_key_file),
            timeout_s=settings.text_detect_upstream_timeout_ms / 1000,
            tries=1 + settings.text_detect_upstream_retries,
        )


def read_key(file: str) -> str:
    """The key a file holds, "" without a file. Raises SettingsError."""
    if not file:
        return ""
    try:
        key = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise SettingsError("text_detect_upstream_key_file: the file cannot be read") from None
    if not key.isascii() or not key.isprintable():
        raise SettingsError("text_detect_upstream_key_file: the key is not one line of ASCII")
    return key


class Upstream:
    """Calls to one endpoint, in one event loop."""

    def __init__(self, options: UpstreamOptions) -> None:
        self._options = options
        headers = {"Authorization": f"Bearer {options.key}"} if options.key else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=options.timeout_s, follow_redirects=False)
        self._places = asyncio.Semaphore(options.at_once)
        self._circuit = Circuit(2 * options.at_once, 10.0)

    @property
    def model(self) -> str:
        """The name the endpoint knows its model by."""
        return self._options.model

    async def continued(self, text: str, *, tokens: int, temperature: float, seed: int) -> str:
        """A continuation of at most so many tokens. Raises UpstreamError."""
        chats = self._options.api == "chat"
        body: dict[str, Any] = {"model": self.model, "max_tokens": tokens, "temperature": temperature, "seed": seed}
        body |= {"messages": [{"role": "user", "content": _PLEASE + text}]} if chats else {"prompt": text}
        path = f"{self._options.url}/{'chat/completions' if chats else 'completions'}"
        async with self._places:
            answer = await self._patiently(path, body)
        return _text_of(answer, chats)

    async def close(self) -> None:
        await self._client.aclose()

    async def _patiently(self, url: str, body: dict[str, Any]) -> Any:
        pause = _FIRST_PAUSE_S
        for left in reversed(range(self._options.tries)):
            try:
                return await self._once(url, body)
            except UpstreamError as fault:
                if not left or fault.reason not in _AGAIN:
                    raise
                await asyncio.sleep(min(_LONGEST_PAUSE_S, max(pause, fault.wait_s)))
            pause *= 2
        raise AssertionError("at least one try")

    async def _once(self, url: str, body: dict[str, Any]) -> Any:
        try:
            self._circuit.check()
        except ApiError:
            raise UpstreamError("paused") from None
        try:
            async with asyncio.timeout(self._options.timeout_s):
                answer = await self._call(url, body)
        except (TimeoutError, httpx.TimeoutException):
            self._circuit.failed()
            raise UpstreamError("timeout") from None
        except httpx.HTTPError:
            self._circuit.failed()
            raise UpstreamError("connection") from None
        except UpstreamError as fault:
            if fault.reason in _AGAIN:
                self._circuit.failed()
            raise
        self._circuit.succeeded()
        return answer

    async def _call(self, url: str, body: dict[str, Any]) -> Any:
        async with self._client.stream("POST", url, json=body) as response:
            _check_status(response)
            raw = b""
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > _MOST_BYTES:
                    raise UpstreamError("not_understood")
        try:
            return httpx.Response(200, content=raw).json()
        except ValueError:
            raise UpstreamError("not_understood") from None


def _check_status(response: httpx.Response) -> None:
    status = response.status_code
    if status in (408, 429):
        raise UpstreamError("overloaded", _wait(response.headers.get("retry-after", "")))
    if status >= 500:
        raise UpstreamError("failed")
    if status != 200:
        raise UpstreamError("refused")


def _wait(header: str) -> float:
    try:
        return max(0.0, float(header))
    except ValueError:
        return 0.0


def _text_of(answer: Any, chats: bool) -> str:
    try:
        choice = answer["choices"][0]
        text = choice["message"]["content"] if chats else choice["text"]
    except (KeyError, IndexError, TypeError):
        raise UpstreamError("not_understood") from None
    if not isinstance(text, str):
        raise UpstreamError("not_understood")
    return text
