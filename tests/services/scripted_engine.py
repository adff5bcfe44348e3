"""An engine without a model, for tests of what is written around one: it says what it is told to, token by token.

Its tokenizer has a token for every byte, so characters beyond ASCII fall into several tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from models.llm.spec import LanguageModelSpec
from services.core.call import Call
from services.core.errors import ApiError
from services.generation.generation import Generation
from services.generation.processors import ProcessorRegistry
from services.generation.request import GenerationRequest, Piece, TokenScore
from services.generation.stopping import StopFinder
from services.generation.tokenizer import Tokenizer
from services.openai.chat_template import ChatTemplate
from services.openai.options import Reader

BOS, EOS = "<s>", "</s>"
CONTEXT = 64
TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "


def byte_tokenizer() -> Tokenizer:
    """Token 0 is <s>, 1 is </s>, every byte has one of the next 256."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = tokenizers.Tokenizer(models.BPE({letter: i + 2 for i, letter in enumerate(letters)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([BOS, EOS])
    return Tokenizer(library)


def make_spec(tokenizer: Tokenizer, *, add_bos: bool = False) -> LanguageModelSpec:
    bos, eos = tokenizer.token_id(BOS), tokenizer.token_id(EOS)
    assert bos is not None
    assert eos is not None
    return LanguageModelSpec(
        vocabulary=tokenizer.size + 6,  # networks are often wider than their vocabulary
        layers=1,
        kv_heads=1,
        head_dim=2,
        context_length=CONTEXT,
        precision="fp32",
        bos_token=bos,
        end_tokens=(eos,),
        add_bos=add_bos,
        bos_text=BOS,
        eos_text=EOS,
    )


def make_reader(*, add_bos: bool = False, chat: bool = True, registry: ProcessorRegistry | None = None) -> Reader:
    tokenizer = byte_tokenizer()
    spec = make_spec(tokenizer, add_bos=add_bos)
    template = ChatTemplate(TEMPLATE, spec) if chat else None
    return Reader(spec, tokenizer, template, registry or ProcessorRegistry())


@dataclass
class ScriptedEngine:
    """Says `script` to every sequence (the next entry to the next one); remembers what it was asked.

    fail_after  tokens after which a sequence fails
    room        sequences it takes in before it is full
    """

    tokenizer: Tokenizer
    script: Sequence[str] = (" so be it",)
    fail_after: int | None = None
    room: int = 1000
    context: int = CONTEXT
    requests: list[GenerationRequest] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    pause: asyncio.Event | None = None

    def submit(self, request: GenerationRequest, call: Call) -> Generation:
        if len(self.running) >= self.room:
            raise ApiError("queue_full", "full", retry_after_ms=100)
        number = len(self.requests)
        self.requests.append(request)
        self.running.add(number)
        generation = Generation(len(request.prompt), lambda: self.running.discard(number))
        generation.usage.cached_tokens = 2
        if request.prompt_logprobs is not None:
            generation.prompt_scores = [score(token, request.prompt_logprobs) for token in request.prompt[1:]]
        text = self.script[number % len(self.script)]
        self._tasks = [*getattr(self, "_tasks", []), asyncio.create_task(self._say(text, request, generation, number))]
        return generation

    async def _say(self, text: str, request: GenerationRequest, generation: Generation, number: int) -> None:
        detokenizer, stops = self.tokenizer.detokenizer(request.prompt), StopFinder(request.stop)
        tokens = self.tokenizer.encode(text)
        generation.batch_rows = len(self.running)
        for i, token in enumerate(tokens[: request.max_tokens]):
            if self.pause is not None and i == 1:
                await self.pause.wait()
            if i == self.fail_after:
                generation.fail(ApiError("inference_failed", "the model failed on this request"))
                return None
            await asyncio.sleep(0)
            said = stops.feed(detokenizer.feed(token))
            scores = () if request.logprobs is None else (score(token, request.logprobs),)
            if stops.found:
                generation.deliver(Piece(said, (token,), scores, "stop"))
                return self.running.discard(number)
            generation.deliver(Piece(said, (token,), scores))
        rest = detokenizer.rest()
        reason = "stop" if len(tokens) < request.max_tokens else "length"
        generation.deliver(Piece(stops.feed(rest) + stops.rest(), (), (), reason))
        return self.running.discard(number)


def score(token: int, alternatives: int) -> TokenScore:
    """A made-up score: alternatives are the tokens after this one."""
    return TokenScore(token, -token / 100, tuple((token + i, -token / 100 - i) for i in range(alternatives)))
