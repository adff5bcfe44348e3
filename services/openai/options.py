"""How to generate, as both routes take it: sampling, ends, log-probabilities, constraints, streaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.generation.processors import ProcessorRegistry, Subject
from services.generation.request import Sampling
from services.generation.tokenizer import Tokenizer
from services.openai.chat_template import ChatTemplate
from services.openai.constraints import read_grammar
from services.openai.fields import Fields, refuse

MOST_STOPS, MOST_ALTERNATIVES, MOST_CHOICES, MOST_BIASES = 16, 20, 128, 1024
MOST_SEQUENCES = 256
_SEEDS = (-(2**63), 2**63 - 1)
_IGNORED = ("user", "metadata", "safety_identifier", "prompt_cache_key")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a request says beside its prompt.

    max_tokens     None: the route's default
    choices        answers to each prompt
    logprobs       alternatives a token's log-probability comes with, None: no log-probabilities
    echo           the answer begins with the prompt
    processors     arguments of registered logits processors by field name
    include_usage  a stream ends with its token counts
    wants_ids      the answer's token ids come beside its text
    """

    max_tokens: int | None
    choices: int
    sampling: Sampling
    stop: tuple[str, ...]
    logprobs: int | None
    echo: bool
    grammar: str | None
    processors: Mapping[str, Any]
    ignore_end: bool
    include_usage: bool
    wants_ids: bool

    def token_ids(self, tokens: Sequence[int]) -> dict[str, list[int]]:
        """A choice's tokens, for callers who asked for them."""
        return {"token_ids": list(tokens)} if self.wants_ids else {}


@dataclass(frozen=True)
class Reader:
    """What requests to one model are read by.

    most_sequences  answers one request may ask for in all
    subject         the model, as processors are told of it
    """

    spec: LanguageModelSpec
    tokenizer: Tokenizer
    template: ChatTemplate | None
    registry: ProcessorRegistry
    most_sequences: int = MOST_SEQUENCES
    subject: Subject | None = None

    def options(self, fields: Fields, *, max_tokens: int | None, logprobs: int | None, echo: bool = False) -> Options:
        """Read what both routes share, and refuse what is left. Raises InputError naming the field."""
        fields.ignore("model", "version", *_IGNORED)
        choices = fields.whole("n", 1, MOST_CHOICES) or 1
        streamed = fields.flag("stream")
        _refuse_tools(fields)
        options = Options(
            max_tokens=max_tokens,
            choices=choices,
            sampling=_sampling(fields, self.spec),
            stop=_stop(fields),
            logprobs=logprobs,
            echo=echo,
            grammar=read_grammar(fields),
            processors={name: sent for name in self.registry.names if (sent := fields.raw(name)) is not None},
            ignore_end=fields.flag("ignore_eos"),
            include_usage=_include_usage(fields, streamed),
            wants_ids=fields.flag("return_token_ids"),
        )
        fields.finish()
        return options


def _sampling(fields: Fields, spec: LanguageModelSpec) -> Sampling:
    top_k = fields.whole("top_k", -1, 2**31 - 1)
    return Sampling(
        temperature=fields.number("temperature", 1.0, 0.0, 2.0),
        top_p=fields.number("top_p", 1.0, 0.0, 1.0, beyond=True),
        top_k=max(0, top_k or 0),  # -1 is other servers' word for "off"
        min_p=fields.number("min_p", 0.0, 0.0, 1.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0.0, 10.0, beyond=True),
        presence_penalty=fields.number("presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2.0, 2.0),
        logit_bias=_logit_bias(fields, spec.vocabulary),
        seed=fields.whole("seed", *_SEEDS),
    )


def _logit_bias(fields: Fields, vocabulary: int) -> dict[int, float]:
    sent = fields.object("logit_bias") or {}
    if len(sent) > MOST_BIASES:
        raise refuse("logit_bias", sent, f"at most {MOST_BIASES} tokens")
    biases = Fields(sent, fields.place("logit_bias"))
    found: dict[int, float] = {}
    for name in sent:
        if not name.isascii() or not name.isdigit() or len(name) > 9 or int(name) >= vocabulary:
            raise refuse("logit_bias", name, f"token ids below {vocabulary} as names")
        found[int(name)] = biases.number(name, 0.0, -100.0, 100.0)
    return found


def _stop(fields: Fields) -> tuple[str, ...]:
    sent = fields.raw("stop")
    if sent is None:
        return ()
    stops = [sent] if isinstance(sent, str) else sent
    if not isinstance(stops, list) or len(stops) > MOST_STOPS:
        raise refuse("stop", sent, f"a string or a list of at most {MOST_STOPS} strings")
    for i, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise refuse(f"stop[{i}]", stop, "a string of at least one character")
    return tuple(stops)


def _include_usage(fields: Fields, streamed: bool) -> bool:
    sent = fields.object("stream_options")
    if sent is None:
        return False
    if not streamed:
        raise refuse("stream_options", sent, "nothing, because the answer is not streamed", "send stream: true with it")
    options = Fields(sent, "stream_options")
    wanted = options.flag("include_usage")
    options.ignore("include_obfuscation")
    options.finish()
    return wanted


def _refuse_tools(fields: Fields) -> None:
    for name in ("tools", "functions"):
        if fields.raw(name):
            raise InputError(
                "not_supported",
                f"{name}: the model is not asked to call tools here",
                field=name,
                hint="describe the tools in a message and constrain the answer with response_format: json_schema",
            )
    for name in ("tool_choice", "function_call"):
        if fields.raw(name) not in (None, "none"):
            raise InputError("not_supported", f"{name}: there are no tools to choose from", field=name)
    fields.ignore("parallel_tool_calls")
