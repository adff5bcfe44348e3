"""What serving a language model must know beside its graph; stored as `settings` in the artifact's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Precision = Literal["fp32", "int8", "int4", "packed-2:4"]
CacheDtype = Literal["float32"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
PACKED: Precision = "packed-2:4"


@dataclass(frozen=True, kw_only=True)
class LanguageModelSpec:
    """Sizes of the graph and habits of the tokenizer.

    vocabulary      V, width of the logits; the tokenizer may know fewer tokens
    layers          key and value caches, one pair a layer
    kv_heads        heads of a cache, head_dim numbers each
    context_length  tokens of prompt and answer together, at most
    precision       of the weights; logits and cache are float32
    bos_token       begins a text; None if the tokenizer knows none
    end_tokens      each ends an answer
    add_bos         prompts of plain text begin with bos_token (chat templates write it themselves)
    bos_text        bos_token and the tokenizer's own end token as a chat template writes them, "" for none
    """

    vocabulary: int
    layers: int
    kv_heads: int
    head_dim: int
    context_length: int
    precision: Precision
    bos_token: int | None
    end_tokens: tuple[int, ...]
    add_bos: bool
    bos_text: str = ""
    eos_text: str = ""
    cache_dtype: CacheDtype = "float32"

    def __post_init__(self) -> None:
        for name in ("vocabulary", "layers", "kv_heads", "head_dim", "context_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least 1")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision: got {self.precision!r}, expected one of {', '.join(PRECISIONS)}")
        if self.cache_dtype not in get_args(CacheDtype):
            raise ValueError(f"cache_dtype: got {self.cache_dtype!r}, expected float32")
        if self.add_bos and self.bos_token is None:
            raise ValueError("add_bos needs a bos_token")
        for token in (*self.end_tokens, *((self.bos_token,) if self.bos_token is not None else ())):
            if not 0 <= token < self.vocabulary:
                raise ValueError(f"token {token} lies outside the vocabulary of {self.vocabulary}")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> LanguageModelSpec:
        """Read the manifest's `settings`. Raises TypeError or ValueError if they are not a language model's."""
        return cls(**{**settings, "end_tokens": tuple(settings.get("end_tokens", ()))})

    def as_settings(self) -> dict[str, Any]:
        """The manifest's `settings`; `from_settings` reads them back."""
        return asdict(self) | {"end_tokens": list(self.end_tokens)}

    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values of all layers for one token of one sequence."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 4
