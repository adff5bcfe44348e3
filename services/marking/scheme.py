"""A watermarking scheme out of its artifact: tokenizer, proxy and parameters; marks and reads once it has a key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from safetensors.numpy import load_file

from export.artifact import Artifact, ArtifactError
from models.balance_marking.config import MarkingError
from models.balance_marking.decoder import Decoder
from models.balance_marking.encoder import Marker
from models.balance_marking.proxy import BigramProxy
from models.balance_marking.scheme import MarkingScheme, shared_level
from models.errors import InputError
from services.generation.tokenizer import Tokenizer
from services.marking.keys import MarkingKey

PROXY, TOKENIZER = "proxy.safetensors", "tokenizer.json"
FAMILY = "watermark"

_DIGESTS: WeakKeyDictionary[Tokenizer, str] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class LoadedScheme:
    """One artifact of the family `watermark`, without its generator."""

    name: str
    version: str
    scheme: MarkingScheme
    proxy: BigramProxy
    tokenizer: Tokenizer

    @classmethod
    def of(cls, artifact: Artifact) -> LoadedScheme:
        """Raises ArtifactError if the artifact is no watermarking scheme."""
        manifest = artifact.manifest
        if manifest.family != FAMILY:
            told = f"{artifact.tag} is of family {manifest.family!r}, not a watermarking scheme"
            raise ArtifactError(told, "name one that `pressroom export watermark` made")
        try:
            scheme = MarkingScheme.from_settings(manifest.settings["scheme"])
            proxy = BigramProxy(load_file(artifact.file(PROXY)))
            scheme.partition(1, proxy)
        except (KeyError, TypeError, ValueError) as fault:
            raise ArtifactError(f"{artifact.tag}: no usable watermarking scheme: {fault}", "export it again") from None
        tokenizer = Tokenizer.from_file(artifact.file(TOKENIZER))
        return cls(manifest.name, manifest.version, scheme, proxy, tokenizer)

    def marker(self, segments: tuple[int, ...], key: MarkingKey, delta: float | None = None) -> Marker:
        """Marks one sequence."""
        return Marker(self.scheme.partition(key.number, self.proxy, delta), segments)

    def decoder(self, key: MarkingKey, readings: int, *, top: int = 5, threads: int = 1) -> Decoder:
        """Reads texts under one key. readings: how many keys are tried on a text, which share the declared level."""
        partition = self.scheme.partition(key.number, self.proxy)
        return Decoder(partition=partition, level=shared_level(self.scheme.level, readings), top=top, threads=threads)

    def require(self, tokenizer: Tokenizer, vocabulary: int) -> None:
        """Raises InputError where a language model speaks other tokens than the scheme splits."""
        if vocabulary != self.scheme.vocabulary or digest(tokenizer) != self._digest:
            raise InputError(
                "not_supported",
                f"watermark: the scheme {self.name}:{self.version} was made for another tokenizer than this model's",
                field="watermark",
                hint="the operator names a scheme exported with `--generator` this model (watermark_scheme)",
            )

    @cached_property
    def _digest(self) -> str:
        return digest(self.tokenizer)


def digest(tokenizer: Tokenizer) -> str:
    """Of all a tokenizer does; remembered as long as it lives."""
    found = _DIGESTS.get(tokenizer)
    if found is None:
        found = _DIGESTS[tokenizer] = hashlib.sha256(tokenizer.as_json().encode()).hexdigest()
    return found


def as_input_error(fault: MarkingError, fields: dict[str, str] | None = None) -> InputError:
    """What the method refuses, as a refusal of a request. fields: names of its settings in the request."""
    field = (fields or {}).get(fault.field, f"watermark.{fault.field}")
    return InputError("invalid_request", f"{field}: {fault.message}", field=field, hint=fault.hint)


def described(scheme: MarkingScheme) -> dict[str, Any]:
    """What the list of models says of a scheme: no secret is among it."""
    one = scheme.segments(scheme.message_bits)
    return {"tokens_for_one_segment": scheme.tokens_needed(one), "declared_rate": scheme.level}
