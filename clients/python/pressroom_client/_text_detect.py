"""The detection call of both clients: was this text written by a model?

The same bytes travel as the body of POST /v1/text/detect and as the BYTES input `request` of a gRPC ModelInfer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from . import _json
from ._config import Retry, Timeout
from ._core import target
from ._errors import UnexpectedAnswer, UsageError
from ._exchange import Exchange, Wire
from ._text_verdicts import DetectTextResult, TextVerdict
from ._types import Timings

T = TypeVar("T")
Texts = str | Sequence[str] | Mapping[str, str]
Version = str | int | None


@dataclass(frozen=True, kw_only=True)
class DetectTextCall:
    """One request. `model` None: the server chooses (it serves one detector)."""

    model: str | None
    version: str | None
    body: bytes
    path: str = "/v1/text/detect"

    def read(self, body: bytes, request_id: str) -> DetectTextResult:
        """The result of a native JSON answer; UnexpectedAnswer if it is none."""
        try:
            return _result(_json.decode(body), request_id)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the answer is no detection: {type(error).__name__} at {error}"
            raise UnexpectedAnswer(message, hint="are client and server of one version?") from error


def detect_text_call(texts: Texts, model: str | None, version: Version, options: Mapping[str, Any]) -> DetectTextCall:
    """Ready for either transport; options that are None are the server's choice. UsageError if it cannot be sent."""
    name, chosen = model, None if version is None else str(version)
    if model is not None:
        wanted = target(model, version)
        name, chosen = wanted.name, wanted.version
    asked = {"model": name, "version": chosen, **_texts(texts), **options}
    body = _json.encode({key: value for key, value in asked.items() if value is not None})
    return DetectTextCall(model=name, version=chosen, body=body)


def _texts(texts: Texts) -> dict[str, Any]:
    if isinstance(texts, str):
        return {"text": texts}
    if isinstance(texts, Mapping):
        return {"texts": [{"id": name, "text": text} for name, text in texts.items()]}
    if not all(isinstance(text, str) for text in texts):
        raise UsageError("texts must be strings", field="texts", hint="one string, a list of them, or id -> string")
    return {"texts": list(texts)}


def _result(answer: Mapping[str, Any], request_id: str) -> DetectTextResult:
    return DetectTextResult(
        texts=tuple(TextVerdict.parse(raw) for raw in answer["texts"]),
        mode=answer["mode"],
        partial=answer["partial"],
        generator=dict(answer["generator"]),
        model=answer["model"],
        version=answer["version"],
        digest=answer["digest"],
        request_id=answer.get("request_id") or request_id,
        timings=Timings.parse(answer.get("timings") or {}),
    )


class TextDetectMethods:
    """Of Client."""

    if TYPE_CHECKING:
        _wire: Wire

        def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    def detect_text(
        self,
        texts: Texts,
        *,
        mode: str | None = None,
        statistic: str | None = None,
        regenerations: int | None = None,
        return_regenerations: bool | None = None,
        model: str | None = None,
        version: Version = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> DetectTextResult:
        """Ask whether texts were written by a detector's language model, or one like it.

        texts          one text, a list of them, or a mapping id -> text
        mode           "white_box" (the served model's log-probabilities) or "black_box" (the words of the operator's
                       endpoint); None: white_box
        statistic      None: the detector's; "w_score", "curvature", "mean_log_prob", "demo", "notebook", "formula"
        regenerations  None: as many as it was calibrated with
        return_regenerations  True: they come back as well
        model          name, or "name:version"; None: the server's only detector (HTTP; over gRPC, name it)
        version        None: the server chooses
        timeout        seconds for the whole call, or a Timeout; None: the client's. A text takes a second or two
        retries        further attempts, or a Retry; None: the client's

        Raises InvalidRequest, EmptyBatch, TooManyRows, NotSupported, ModelNotFound, QueueFull, DeadlineExceeded ...
        """
        options = {
            "mode": mode,
            "statistic": statistic,
            "regenerations": regenerations,
            "return_regenerations": return_regenerations,
        }
        return self._run(self._wire.task(detect_text_call(texts, model, version, options)), timeout, retries)


class AsyncTextDetectMethods:
    """Of AsyncClient: the same, awaited."""

    if TYPE_CHECKING:
        _wire: Wire

        async def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    async def detect_text(
        self,
        texts: Texts,
        *,
        mode: str | None = None,
        statistic: str | None = None,
        regenerations: int | None = None,
        return_regenerations: bool | None = None,
        model: str | None = None,
        version: Version = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> DetectTextResult:
        """See Client.detect_text."""
        options = {
            "mode": mode,
            "statistic": statistic,
            "regenerations": regenerations,
            "return_regenerations": return_regenerations,
        }
        return await self._run(self._wire.task(detect_text_call(texts, model, version, options)), timeout, retries)
