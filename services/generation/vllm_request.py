"""Our requests in vLLM's words: arguments of `SamplingParams`, structured outputs, processors by name.

vLLM's engine runs in processes of its own, so nothing here is a callable that must travel: a logits processor goes as
(field name, JSON argument) and is made again over there, by the same registry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.generation.processors import NamedProcessor, ProcessorRegistry
from services.generation.request import GenerationRequest, LogitsProcessor, TokenScore
from services.generation.tokenizer import Tokenizer

MOST_ALTERNATIVES = 20  # log-probabilities a token beside its own
EXTRA = "pressroom"  # of vLLM's `extra_args` and `additional_config`
_HINTS = "x-guidance"
_LARGEST_SEED = 2**63 - 1


def sampling_arguments(request: GenerationRequest, spec: LanguageModelSpec) -> dict[str, Any]:
    """Arguments of `vllm.SamplingParams`, without `structured_outputs` and `output_kind`.

    Stop strings and text are made here, from tokens. vLLM generates one token at least: for max_tokens 0 it is dropped.
    Raises InputError for a processor that has no name, and for what vLLM does not tell.
    """
    if request.prompt_moments:
        raise InputError("not_supported", "vLLM tells likely tokens' log-probabilities, not those of the vocabulary")
    sampling = request.sampling
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "logit_bias": dict(sampling.logit_bias) or None,
        "seed": None if sampling.seed is None else sampling.seed & _LARGEST_SEED,
        "max_tokens": max(1, request.max_tokens),
        "stop_token_ids": [] if request.ignore_end else list(spec.end_tokens),
        "ignore_eos": request.ignore_end,
        "logprobs": request.logprobs,
        "prompt_logprobs": request.prompt_logprobs,
        "detokenize": False,
        "extra_args": _extra(request.processors),
    }


def structured_arguments(grammar: str) -> dict[str, Any]:
    """Arguments of `vllm.sampling_params.StructuredOutputsParams` for a grammar of `services.generation.grammar`.

    Such a grammar is Lark text, or JSON that wraps one JSON schema or one Lark text. Our hints on blanks are left
    out: vLLM's version of the library reads them differently, and the engine is told to write none.
    """
    if not grammar.lstrip().startswith("{"):
        return {"grammar": grammar}
    try:
        (wrapped,) = json.loads(grammar)["grammars"]
    except (ValueError, KeyError, TypeError):
        raise InputError("not_supported", "grammar: vLLM takes one JSON schema or one Lark grammar") from None
    if wrapped.get("json_schema") is not None:
        schema = wrapped["json_schema"]
        bare = {key: value for key, value in schema.items() if key != _HINTS} if isinstance(schema, dict) else schema
        return {"json": json.dumps(bare)}
    return {"grammar": wrapped["lark_grammar"]}


def token_scores(tokens: Sequence[int], found: Sequence[Mapping[int, Any] | None], top: int) -> list[TokenScore]:
    """vLLM's log-probabilities of tokens: of each its own and the `top` likeliest (ties: smaller ids first).

    found  per token a mapping from token to an object with `logprob`, that holds the token and the likeliest ones
    """
    return [_score(token, entry, top) for token, entry in zip(tokens, found, strict=True) if entry is not None]


def _score(token: int, entry: Mapping[int, Any], top: int) -> TokenScore:
    known = {int(other): float(value.logprob) for other, value in entry.items()}
    likeliest = sorted(known.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    return TokenScore(token, known[token], tuple(likeliest))


def _extra(processors: Sequence[LogitsProcessor]) -> dict[str, Any] | None:
    named = []
    for processor in processors:
        if not isinstance(processor, NamedProcessor):
            raise InputError("not_supported", "vLLM runs only logits processors that the registry made")
        named.append([processor.name, processor.argument])
    return {EXTRA: named} if named else None


class RemoteProcessors:
    """In vLLM's process: the processors of one sequence, on torch rows instead of numpy's.

    arguments  what `sampling_arguments` put into `extra_args`
    """

    def __init__(
        self,
        arguments: Sequence[tuple[str, Any]],
        registry: ProcessorRegistry,
        spec: LanguageModelSpec,
        tokenizer: Tokenizer,
    ) -> None:
        self._processors = registry.make(dict(arguments), spec, tokenizer)

    def __call__(self, prompt: Sequence[int], generated: Sequence[int], logits: Any) -> Any:
        """logits: torch tensor [V]; the same one changed, or a new one where its memory cannot be shared."""
        row = logits.detach().float().cpu().numpy()
        for processor in self._processors:
            processor(prompt, generated, row)
        shared = row.__array_interface__["data"][0] == logits.data_ptr()
        return logits if shared else logits.new_tensor(row)
