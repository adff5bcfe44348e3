"""Runs in vLLM's own process, which imports it by name: per-request logits processors from the registry's names.

`additional_config[EXTRA]` of the engine says what the registry needs: the model's settings, its tokenizer's file, and
the modules whose import registers the processors.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from models.llm.spec import LanguageModelSpec
from services.generation.processors import REGISTRY
from services.generation.tokenizer import Tokenizer
from services.generation.vllm_request import EXTRA, RemoteProcessors


class RegisteredProcessors(AdapterLogitsProcessor):
    """vLLM's adapter: one object a worker, asked once for each new request."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        found = vllm_config.additional_config[EXTRA]
        for module in found["modules"]:
            import_module(module)
        self._spec = LanguageModelSpec.from_settings(found["settings"])
        self._tokenizer = Tokenizer.from_file(Path(found["tokenizer"]))

    def is_argmax_invariant(self) -> bool:
        """A processor may change which token is the likeliest."""
        return False

    def new_req_logits_processor(self, params: Any) -> RemoteProcessors | None:
        """The processors a request names, None if it names none."""
        arguments = (params.extra_args or {}).get(EXTRA)
        return RemoteProcessors(arguments, REGISTRY, self._spec, self._tokenizer) if arguments else None
