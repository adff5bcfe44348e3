"""One sequence at work: its tokens, its place in the cache, and what the next token does to its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import ReferenceType

import numpy as np

from services.generation.generation import Generation
from services.generation.grammar import Grammar
from services.generation.request import FinishReason, GenerationRequest, Logits, Piece, TokenScore
from services.generation.sampling import Ids, Sampler, likeliest, scores
from services.generation.stopping import StopFinder
from services.generation.tokenizer import Detokenizer, Tokenizer


@dataclass(eq=False, slots=True, weakref_slot=True)
class Sequence:
    """State of one sequence; belongs to the model's thread once it was queued.

    sink        whoever reads the answer, if anybody still does
    deadline    `time.perf_counter()` seconds, or None
    held        tokens in the cache; cached: those of them that were copied, not computed
    slot        place in the cache, -1 for none
    last        logits after the prompt, for others with the same prompt
    """

    request: GenerationRequest
    prompt: Ids
    end_tokens: frozenset[int]
    sampler: Sampler
    detokenizer: Detokenizer
    stops: StopFinder
    submitted: float
    deadline: float | None
    interactive: bool
    sink: ReferenceType[Generation] | None = None
    grammar: Grammar | None = None
    generated: list[int] = field(default_factory=list)
    prompt_scores: list[TokenScore] = field(default_factory=list)
    held: int = 0
    cached: int = 0
    slot: int = -1
    began: float = 0.0
    spoke: float = 0.0  # when its latest piece was made
    last: Logits | None = None
    cancelled: bool = False

    @property
    def reserved(self) -> int:
        """Tokens there must be room for."""
        return len(self.prompt) + self.request.max_tokens

    @property
    def shareable(self) -> int:
        """Tokens of the cache that others with the same beginning may copy.

        Those of the answer were computed one by one, by another kernel, and differ in the last bits.
        """
        return min(self.held, len(self.prompt))

    @property
    def room_to_share(self) -> int:
        """How long a copied beginning may be: two tokens are left, as a chunk of one would be computed otherwise."""
        return 0 if self.request.prompt_logprobs is not None else max(0, len(self.prompt) - 2)

    def score_prompt(self, logits: Logits) -> None:
        """Scores of the prompt's tokens that follow a chunk's: logits [S, V] of tokens held .. held + S - 1."""
        asked = self.request.prompt_logprobs
        if asked is not None:
            following, moments = self.prompt[self.held + 1 : self.held + 1 + len(logits)], self.request.prompt_moments
            self.prompt_scores += [
                scores(row, int(token), asked, moments=moments) for row, token in zip(logits, following, strict=False)
            ]

    def advance(self, logits: Logits) -> Piece:
        """Choose the next token. logits float32 [V], may be changed. Raises whatever a processor or grammar raises."""
        if self.request.max_tokens == 0:
            return Piece("", finish_reason="length")
        asked = self.request.logprobs
        raw = logits.copy() if asked is not None and not self.sampler.plain else logits
        token = self._choose(logits)
        if token in self.end_tokens:
            return self._ending("", "stop")
        found = () if asked is None else (scores(raw, token, asked),)
        return self._take(token, found)

    def _choose(self, logits: Logits) -> int:
        if self.sampler.plain:
            return likeliest(logits)
        allowed = None if self.grammar is None else self.grammar.allowed()
        return self.sampler.next(logits, self.generated, allowed)

    def _take(self, token: int, found: tuple[TokenScore, ...]) -> Piece:
        self.generated.append(token)
        complete = self.grammar is not None and self.grammar.take(token)
        text = self.stops.feed(self.detokenizer.feed(token))
        if self.stops.found:
            return Piece(text, (token,), found, "stop")
        if complete:
            return self._ending(text, "stop", (token,), found)
        if len(self.generated) == self.request.max_tokens:
            return self._ending(text, "length", (token,), found)
        return Piece(text, (token,), found)

    def _ending(
        self, text: str, reason: FinishReason, tokens: tuple[int, ...] = (), found: tuple[TokenScore, ...] = ()
    ) -> Piece:
        """The last piece, with all that was held back; that may complete a stop string."""
        text += self.stops.feed(self.detokenizer.rest())
        if self.stops.found:
            return Piece(text, tokens, found, "stop")
        return Piece(text + self.stops.rest(), tokens, found, reason)


def make_sequence(
    request: GenerationRequest,
    tokenizer: Tokenizer,
    end_tokens: frozenset[int],
    submitted: float,
    deadline: float | None,
    interactive: bool,
) -> Sequence:
    """A sequence about to be queued."""
    return Sequence(
        request=request,
        prompt=np.array(request.prompt, np.int64),
        end_tokens=frozenset() if request.ignore_end else end_tokens,
        sampler=Sampler(request),
        detokenizer=tokenizer.detokenizer(request.prompt),
        stops=StopFinder(request.stop),
        submitted=submitted,
        deadline=deadline,
        interactive=interactive,
    )
