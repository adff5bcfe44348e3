"""vLLM's outputs of one sequence -> our pieces: text, stop strings and end tokens are handled as in our own engine."""

from __future__ import annotations

from typing import Any

from services.generation.request import FinishReason, GenerationRequest, Piece, TokenScore
from services.generation.stopping import StopFinder
from services.generation.tokenizer import Tokenizer
from services.generation.vllm_request import token_scores


class Answer:
    """One sequence as it grows.

    steps          outputs seen
    prompt_scores, cached_tokens   known once an output was seen
    """

    def __init__(self, request: GenerationRequest, tokenizer: Tokenizer, end_tokens: frozenset[int]) -> None:
        self.steps = 0
        self.prompt_scores: list[TokenScore] = []
        self.cached_tokens = 0
        self._request = request
        self._end_tokens = end_tokens
        self._detokenizer = tokenizer.detokenizer(request.prompt)
        self._stops = StopFinder(request.stop)

    def piece(self, output: Any) -> Piece:
        """The next output, a `vllm.RequestOutput` of kind DELTA. Raises RuntimeError if vLLM gave up."""
        self.steps += 1
        if self.steps == 1:
            self._read_prompt(output)
        completion = output.outputs[0]
        reason = completion.finish_reason
        if reason not in (None, "stop", "length"):
            raise RuntimeError(f"vLLM ended an answer with {reason}")
        if self._request.max_tokens == 0:
            return Piece("", finish_reason="length")
        tokens = list(completion.token_ids)
        found = self._scores(tokens, completion.logprobs)
        if reason == "stop" and tokens and tokens[-1] in self._end_tokens:
            tokens, found = tokens[:-1], found[: len(tokens) - 1]
        return self._take(tokens, found, reason)

    def _read_prompt(self, output: Any) -> None:
        self.cached_tokens = output.num_cached_tokens or 0
        asked = self._request.prompt_logprobs
        if asked is not None:
            self.prompt_scores = token_scores(self._request.prompt, output.prompt_logprobs, asked)

    def _scores(self, tokens: list[int], logprobs: Any) -> list[TokenScore]:
        asked = self._request.logprobs
        return [] if asked is None else token_scores(tokens, logprobs, asked)

    def _take(self, tokens: list[int], found: list[TokenScore], reason: FinishReason | None) -> Piece:
        text = ""
        for taken, token in enumerate(tokens, start=1):
            text += self._stops.feed(self._detokenizer.feed(token))
            if self._stops.found:
                return Piece(text, tuple(tokens[:taken]), tuple(found[:taken]), "stop")
        if reason is not None:
            text += self._stops.feed(self._detokenizer.rest())
            if self._stops.found:
                reason = "stop"
            text += self._stops.rest()
        return Piece(text, tuple(tokens), tuple(found), reason)
