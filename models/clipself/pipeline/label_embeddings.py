"""A label as one embedding: of the artifact's vocabulary, or by the text tower from the prompts it is put into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from models.clipself.labels import prompts
from models.clipself.pipeline.engine import BACKGROUND, VOCABULARY, Engine, Tensors
from models.clipself.pipeline.scoring import unit
from models.clipself.tokenizer import ClipTokenizer

Array = npt.NDArray[np.float32]

PROMPTS = 64  # of one pass of the text tower
NOTHING = "background"  # the label of whatever is none of the labels


class LabelEmbedder:
    """Embeddings of single labels, unit norm. arrays: those of the artifact."""

    def __init__(self, engine: Engine, arrays: Tensors) -> None:
        self._engine, spec = engine, engine.spec
        self._templates = spec.templates
        self._tokenizer = ClipTokenizer() if spec.context_length else None
        rows = unit(arrays[VOCABULARY]) if spec.vocabulary else np.zeros((0, spec.embed_dim), np.float32)
        self._known = dict(zip(spec.vocabulary, rows, strict=True))
        self._background = unit(arrays[BACKGROUND]) if BACKGROUND in arrays else None

    def known(self, label: str, templates: Sequence[str]) -> Array | None:
        """The embedding [E] that came with the artifact; the caller's own templates ask for another one."""
        own = tuple(templates) == self._templates or self._tokenizer is None
        return self._known.get(label) if own else None

    def embed(self, label: str, templates: Sequence[str]) -> Array:
        """[E]: every prompt's embedding normalised, their mean normalised again."""
        assert self._tokenizer is not None
        texts = prompts(label, templates)
        parts = [self._texts(texts[first : first + PROMPTS]) for first in range(0, len(texts), PROMPTS)]
        return unit(np.concatenate(parts).mean(axis=0))

    def background(self) -> Array | None:
        """What stands for no label [E], where no text tower can say it; None where one can."""
        if self._background is not None or self._tokenizer is not None:
            return self._background
        return unit(np.stack(list(self._known.values())).mean(axis=0))

    def _texts(self, texts: Sequence[str]) -> Array:
        """[N, E]; the padding all rows share is left away, which changes nothing behind a causal mask."""
        assert self._tokenizer is not None
        ids = self._tokenizer(texts, self._engine.spec.context_length)
        longest = int((ids != 0).any(axis=0).nonzero()[0][-1]) + 1
        return self._engine.embed(ids[:, :longest])
