"""Names of request fields that change logits, and who makes the processors: where a text watermark plugs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.generation.request import Logits, LogitsProcessor
from services.generation.tokenizer import Tokenizer

Factory = Callable[[Any, LanguageModelSpec, Tokenizer], LogitsProcessor]


@dataclass(frozen=True, slots=True)
class Subject:
    """The language model that answers; digests as "sha256:<hex>", of its artifact and of its pruning receipt."""

    name: str
    version: str
    digest: str
    receipt_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What else is known of a request when a processor's argument is made. subject None: not one served model's."""

    max_tokens: int
    temperature: float
    subject: Subject | None = None


Resolver = Callable[[Any, Asked], Any]


def _as_sent(sent: Any, asked: Asked) -> Any:
    return sent


@dataclass(frozen=True, slots=True)
class NamedProcessor:
    """A processor and what it was made of, so that an engine in another process can make it again."""

    name: str
    argument: Any
    processor: LogitsProcessor

    def __call__(self, prompt: Sequence[int], generated: Sequence[int], logits: Logits) -> None:
        self.processor(prompt, generated, logits)


class ProcessorRegistry:
    """Request field name -> factory `(argument, spec, tokenizer) -> LogitsProcessor`.

    The argument is the field's JSON value, or what its resolver makes of it `(value or None, asked)`: None for no
    processor, so that a resolver may also insist on one that no request named. Factory and resolver raise InputError
    for what they cannot use. Processors run in the order they were registered in, whatever order a request names them
    in.
    """

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}
        self._resolvers: dict[str, Resolver] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Field names a request may use."""
        return tuple(self._factories)

    @property
    def modules(self) -> tuple[str, ...]:
        """Where the factories are: importing these registers the same names in another process."""
        return tuple(dict.fromkeys(factory.__module__ for factory in self._factories.values()))

    def register(self, name: str, factory: Factory, resolver: Resolver = _as_sent) -> None:
        """Raises ValueError where the name is taken."""
        if name in self._factories:
            raise ValueError(f"{name}: a logits processor of this name is registered already")
        self._factories[name] = factory
        self._resolvers[name] = resolver

    def resolve(self, sent: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
        """Arguments for `make`, from the fields of a request. Raises InputError, with the field named."""
        found = {name: resolver(sent.get(name), asked) for name, resolver in self._resolvers.items()}
        unknown = {name: value for name, value in sent.items() if name not in found}
        return unknown | {name: argument for name, argument in found.items() if argument is not None}

    def make(
        self, arguments: Mapping[str, Any], spec: LanguageModelSpec, tokenizer: Tokenizer
    ) -> tuple[NamedProcessor, ...]:
        """Processors of one sequence. Raises InputError, with the field named."""
        if unknown := sorted(set(arguments) - set(self._factories)):
            known = ", ".join(self._factories) or "none"
            raise InputError(
                "invalid_request",
                f"{unknown[0]}: no logits processor of this name",
                field=unknown[0],
                hint=f"known: {known}",
            )
        named = [(name, factory) for name, factory in self._factories.items() if name in arguments]
        return tuple(
            NamedProcessor(name, arguments[name], factory(arguments[name], spec, tokenizer)) for name, factory in named
        )


REGISTRY = ProcessorRegistry()  # of this server; a feature registers its own when it is imported
