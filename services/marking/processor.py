"""The logits processor `watermark`: registered when this module is imported, in the server and in vLLM's process alike.

What a request says under `watermark` is resolved first (message, key, policy), to an argument that names everything but
the secret: scheme, segments, key id, delta. Of that the processor is made, wherever the engine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from models.balance_marking.encoder import Marker
from models.llm.spec import LanguageModelSpec
from services.generation.processors import REGISTRY
from services.generation.request import Logits
from services.generation.tokenizer import Tokenizer
from services.marking.marking import Marking, of_this_process
from services.watermark_metrics import WatermarkMetrics

NAME = "watermark"


class WatermarkProcessor:
    """Marks one sequence and counts its segments."""

    def __init__(self, marker: Marker, metrics: WatermarkMetrics) -> None:
        config = marker.partition.config
        self._marker, self._metrics = marker, metrics
        lengths = range(1, len(marker.segments) + 1)
        self._last = {config.tokens_for(segments) - 1 for segments in lengths}  # places of segments' last tokens

    def __call__(self, prompt: Sequence[int], generated: Sequence[int], logits: Logits) -> None:
        """See `LogitsProcessor`."""
        self._marker(prompt, generated, logits)
        if len(generated) in self._last:
            self._metrics.embedded()


def make_processor(argument: Any, spec: LanguageModelSpec, tokenizer: Tokenizer) -> WatermarkProcessor:
    """The processor of a resolved argument (`services.marking.marking`). Raises InputError."""
    marking: Marking = of_this_process()
    scheme = marking.scheme(argument["scheme"])
    scheme.require(tokenizer, spec.vocabulary)
    key = marking.key(argument["key_id"])
    marker = scheme.marker(tuple(argument["segments"]), key, argument["delta"])
    return WatermarkProcessor(marker, metrics_of(scheme.name, scheme.version))


@lru_cache(maxsize=64)
def metrics_of(name: str, version: str) -> WatermarkMetrics:
    """The series of a scheme, the same whoever counts."""
    return WatermarkMetrics(name, version)


def require_marking(spec: LanguageModelSpec, tokenizer: Path) -> None:
    """Raises ArtifactError where the policy marks every answer and a language model's cannot be marked."""
    of_this_process().require(spec, tokenizer)


REGISTRY.register(NAME, make_processor, lambda sent, asked: of_this_process().argument(sent, asked))
