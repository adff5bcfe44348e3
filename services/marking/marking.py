"""What this process marks with: schemes, keys, the registry of messages, and the operator's policy.

The policy `request` marks the answers that ask for it. The policy `always` marks every answer with the server's own
message, refuses requests that say anything about it, and makes up for a high temperature, which would weaken the mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from export.artifact import ArtifactError, open_artifact
from models.balance_marking.config import MarkingError
from models.balance_marking.segments import check_length
from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.core.settings import Settings, SettingsError, load_settings
from services.generation.processors import Asked
from services.generation.tokenizer import Tokenizer
from services.marking.keys import KeyRing, Keys, MarkingKey
from services.marking.payload import Payload, read_payload
from services.marking.registry import Facts, MessageRegistry
from services.marking.scheme import LoadedScheme, as_input_error

REGISTERED = "registry"
_FIELDS = {"message": "watermark", "segments": "watermark"}


@dataclass(frozen=True)
class Marking:
    """One process's watermarks as its settings say. May be used from several threads."""

    settings: Settings

    @cached_property
    def registry(self) -> MessageRegistry | None:
        """What keeps the meaning of messages, if the operator named one."""
        return MessageRegistry(self.settings.watermark_registry) if self.settings.watermark_registry else None

    @property
    def keys(self) -> Keys:
        """The keys in force. Raises InputError where there are none."""
        if self._ring is None:
            raise InputError(
                "not_supported",
                "this server has no watermark keys",
                hint="the operator makes one with `pressroom text key` and sets PRESSROOM_WATERMARK_KEYS_FILE",
            )
        return self._ring.keys

    def key(self, key_id: str | None, field: str = "watermark.key_id") -> MarkingKey:
        """The key of this id, or the current one. Raises InputError."""
        keys = self.keys
        found = keys.current if key_id is None else keys.find(key_id)
        if found is None:
            known = ", ".join(key.id for key in keys.all)
            raise InputError(
                "invalid_request", f"{field}: no key {key_id!r} is known", field=field, hint=f"known: {known}"
            )
        return found

    def scheme(self, tag: str) -> LoadedScheme:
        """A scheme of the store, loaded once. Raises ArtifactError."""
        return _scheme(tag)

    @property
    def of_answers(self) -> LoadedScheme | None:
        """The scheme of completions and chats. Raises ArtifactError."""
        return _scheme(self.settings.watermark_scheme) if self.settings.watermark_scheme else None

    def require(self, spec: LanguageModelSpec, tokenizer: Path) -> None:
        """Raises ArtifactError where every answer must be marked and a language model's cannot be.

        tokenizer  the model's `tokenizer.json`
        """
        if self.settings.watermark_policy != "always":
            return
        scheme = self.of_answers
        assert scheme is not None
        try:
            scheme.require(Tokenizer.from_file(tokenizer), spec.vocabulary)
            self._policy_message(scheme.scheme.message_bits, None)
        except (InputError, MarkingError) as fault:
            raise ArtifactError(f"every answer must be marked, but {fault.message}", fault.hint or "") from None
        except SettingsError as fault:
            raise ArtifactError(
                f"every answer must be marked, but {fault}", "mend PRESSROOM_WATERMARK_REGISTRY"
            ) from None

    def argument(self, sent: Any, asked: Asked) -> dict[str, Any] | None:
        """What a request to a language model's own routes is marked with; None: not at all. Raises InputError."""
        always = self.settings.watermark_policy == "always"
        if sent is None and not always:
            return None
        scheme = self.of_answers
        if scheme is None:
            raise InputError(
                "not_supported",
                "watermark: this server marks no answers",
                field="watermark",
                hint="the operator names a scheme with PRESSROOM_WATERMARK_SCHEME",
            )
        return self.argument_of(scheme, sent, asked)

    def argument_of(self, scheme: LoadedScheme, sent: Any, asked: Asked) -> dict[str, Any]:
        """The same for a given scheme, which marks in any case."""
        if self.settings.watermark_policy == "always":
            return self._of_policy(scheme, sent, asked)
        payload = read_payload(sent)
        segments = self.segments(scheme, payload)
        config = scheme.scheme.config(0)
        try:
            check_length(len(segments), asked.max_tokens, config)
        except MarkingError as fault:
            raise as_input_error(fault, _FIELDS) from None
        delta = scheme.scheme.delta if payload.delta is None else payload.delta
        return _argument(scheme, segments, self.key(payload.key_id), delta)

    def segments(self, scheme: LoadedScheme, payload: Payload) -> tuple[int, ...]:
        """A request's message as the segments to embed; a label is registered. Raises InputError, ApiError."""
        bits = payload.bits or scheme.scheme.message_bits
        message = payload.message
        if payload.label is not None:
            message = self.required_registry("watermark.label").number(Facts(label=payload.label), bits)
        assert message is not None
        return _encoded(scheme, message, bits)

    def expected(self, scheme: LoadedScheme, payload: Payload, place: str) -> tuple[int, ...]:
        """The segments a text is checked for; a label must be registered. Raises InputError, ApiError."""
        bits = payload.bits or scheme.scheme.message_bits
        message = payload.message
        if payload.label is not None:
            message = self.required_registry(f"{place}.label").known(Facts(label=payload.label), bits)
        if message is None:
            raise InputError(
                "invalid_request",
                f"{place}.label: nothing was ever marked with this label",
                field=f"{place}.label",
                hint="leave it away: no text can carry it",
            )
        return _encoded(scheme, message, bits)

    def required_registry(self, field: str) -> MessageRegistry:
        """The registry, for a request that needs it. Raises InputError where there is none."""
        if self.registry is None:
            raise InputError(
                "not_supported",
                f"{field}: this server keeps no registry of messages",
                field=field,
                hint="send a number, or the operator sets PRESSROOM_WATERMARK_REGISTRY",
            )
        return self.registry

    def _of_policy(self, scheme: LoadedScheme, sent: Any, asked: Asked) -> dict[str, Any]:
        if sent is not None:
            raise InputError(
                "not_supported",
                "watermark: this server marks every answer with its own message",
                field="watermark",
                hint="leave the field away",
            )
        message = self._policy_message(scheme.scheme.message_bits, asked)
        segments = scheme.scheme.encode(message, scheme.scheme.message_bits)
        return _argument(scheme, segments, self.keys.current, scheme.scheme.delta * max(1.0, asked.temperature))

    def _policy_message(self, bits: int, asked: Asked | None) -> int:
        if self.settings.watermark_message != REGISTERED:
            message = int(self.settings.watermark_message)
            if message >> bits:
                told = f"watermark_message {message} does not fit the scheme's {bits} bits"
                raise MarkingError("message", told, "Name a smaller one.")
            return message
        registry = self.required_registry("watermark")
        if asked is None or asked.subject is None:
            return 0
        subject = asked.subject
        facts = Facts(
            model=subject.name,
            version=subject.version,
            digest=subject.digest,
            receipt_digest=subject.receipt_digest,
            bucket=bucket(datetime.now(UTC), self.settings.watermark_bucket_hours),
        )
        return registry.number(facts, bits)

    @cached_property
    def _ring(self) -> KeyRing | None:
        path = self.settings.watermark_keys_file
        return KeyRing(Path(path)) if path else None


def bucket(now: datetime, hours: int) -> str:
    """The beginning of the stretch of `hours` hours that `now` (UTC) lies in; stretches are counted from 1970."""
    length = hours * 3600
    return datetime.fromtimestamp(int(now.timestamp()) // length * length, UTC).isoformat(timespec="minutes")


def _encoded(scheme: LoadedScheme, message: int, bits: int) -> tuple[int, ...]:
    try:
        return scheme.scheme.encode(message, bits)
    except MarkingError as fault:
        raise as_input_error(fault, _FIELDS) from None


def _argument(scheme: LoadedScheme, segments: tuple[int, ...], key: MarkingKey, delta: float) -> dict[str, Any]:
    return {
        "scheme": f"{scheme.name}:{scheme.version}",
        "segments": list(segments),
        "key_id": key.id,
        "delta": delta,
    }


@lru_cache(maxsize=16)
def _scheme(tag: str) -> LoadedScheme:
    name, _, version = tag.partition(":")
    return LoadedScheme.of(open_artifact(name, version or None))


@lru_cache(maxsize=1)
def of_this_process() -> Marking:
    """The watermarks of this process, by its environment: a server's workers and vLLM's process have the same one."""
    return Marking(load_settings().values)
