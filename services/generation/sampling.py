"""Logits of one sequence -> its next token, and log-probabilities.

    processors -> logit bias -> penalties -> grammar -> temperature -> top_k -> top_p -> min_p -> draw

Truncations follow the field's order and meaning: top_k keeps ties with the k-th; top_p keeps the fewest of the
likeliest tokens (ties: smaller ids first) whose probability, among those top_k left, reaches it; min_p keeps tokens at
least so likely as its part of the likeliest. Every sequence has a random generator of its own, so that its draws
depend on nobody else; same logits and same seed, same token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.generation.request import GenerationRequest, Logits, Sampling, TokenScore

Ids = npt.NDArray[np.int64]

_COLD = 1e-5  # temperatures below it mean the likeliest token; dividing by them would overflow
_LIKELY, _FEW = (1e-2, 1e-4), 2048  # where the nucleus of top_p is looked for first: weights; tokens at most
_BINS_A_NAT, _BINS = 64, 2048
_STRIDE = 256


class NotNumbersError(ValueError):
    """The network's logits are not numbers."""


class RuledOutError(ValueError):
    """No token is left after what the request asked to be done to the logits."""


class Sampler:
    """Draws one sequence's tokens. `plain`: the likeliest token of untouched logits is all there is to it."""

    def __init__(self, request: GenerationRequest) -> None:
        self._sampling = sampling = request.sampling
        self._processors = request.processors
        self._prompt = request.prompt
        self._bias_ids = np.fromiter(sampling.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(sampling.logit_bias.values(), np.float32)
        self._counts = TokenCounts(request) if _has_penalties(sampling) else None
        self._random = random_generator(sampling.seed)
        untouched = not self._processors and not len(self._bias) and self._counts is None
        self.plain = untouched and sampling.temperature < _COLD and request.grammar is None

    def next(self, logits: Logits, generated: Sequence[int], allowed: npt.NDArray[np.bool_] | None) -> int:
        """The next token. logits float32 [V], changed in place; allowed: by the grammar, [V], None: all.

        Raises NotNumbersError, RuledOutError, and whatever a processor raises.
        """
        with np.errstate(all="ignore"):  # what overflows is found out below
            return self._next(logits, generated, allowed)

    def _next(self, logits: Logits, generated: Sequence[int], allowed: npt.NDArray[np.bool_] | None) -> int:
        likeliest(logits)
        for processor in self._processors:
            processor(self._prompt, generated, logits)
        if len(self._bias):
            logits[self._bias_ids] += self._bias
        if self._counts is not None:
            self._counts.penalise(logits, self._sampling)
        if allowed is not None:
            logits[~allowed] = -np.inf
        token = self._choose(logits)
        if self._counts is not None:
            self._counts.add(token)
        return token

    def _choose(self, logits: Logits) -> int:
        best = int(logits.argmax())
        if not np.isfinite(logits[best]):
            raise RuledOutError
        return best if self._sampling.temperature < _COLD else draw(logits, best, self._sampling, self._random)


class TokenCounts:
    """How often each token has come so far, and which ones the prompt has."""

    def __init__(self, request: GenerationRequest) -> None:
        self._seen = np.array(sorted(set(request.prompt)), np.int64)
        self._counts: dict[int, int] = {}

    def add(self, token: int) -> None:
        """One more of this token was generated."""
        self._counts[token] = self._counts.get(token, 0) + 1

    def penalise(self, logits: Logits, sampling: Sampling) -> None:
        """Repetition: over prompt and answer; presence and frequency: over the answer."""
        ids = np.fromiter(self._counts.keys(), np.int64, len(self._counts))
        if sampling.repetition_penalty != 1:
            both = np.union1d(self._seen, ids)
            values = logits[both]
            penalty = np.float32(sampling.repetition_penalty)
            logits[both] = np.where(values > 0, values / penalty, values * penalty)
        if len(ids):
            times = np.fromiter(self._counts.values(), np.float32, len(ids))
            logits[ids] -= np.float32(sampling.presence_penalty) + np.float32(sampling.frequency_penalty) * times


def likeliest(logits: Logits) -> int:
    """The likeliest token of what the network said. Raises NotNumbersError."""
    token = int(logits.argmax())  # the first NaN, if there is one
    if not np.isfinite(logits[token]):
        raise NotNumbersError
    return token


def random_generator(seed: int | None) -> np.random.Generator:
    """Any integer is a seed; None: a new one each time."""
    return np.random.default_rng(None if seed is None else seed % 2**64)


def draw(logits: Logits, best: int, sampling: Sampling, random: np.random.Generator) -> int:
    """One token at a temperature above 0. best: the id of the largest logit. Raises RuledOutError."""
    ids, weights = candidates(logits, best, sampling)
    starts = np.arange(0, len(weights), _STRIDE)
    strides = np.add.reduceat(weights.astype(np.float64), starts).cumsum()  # running sums of some at a time: faster
    if not np.isfinite(strides[-1]):
        raise RuledOutError
    aim = random.random() * strides[-1]
    stride = min(int(strides.searchsorted(aim, side="right")), len(starts) - 1)
    aim -= strides[stride - 1] if stride else 0.0
    some = weights[starts[stride] : starts[stride] + _STRIDE].cumsum(dtype=np.float64)
    at = int(starts[stride]) + min(int(some.searchsorted(aim, side="right")), len(some) - 1)
    return at if ids is None else int(ids[at])


def candidates(logits: Logits, best: int, sampling: Sampling) -> tuple[Ids | None, Logits]:
    """Tokens that may be drawn, rising, and their weights relative to the likeliest's 1: ids [n] (None: all), [n]."""
    ids: Ids | None = None
    if 0 < sampling.top_k < len(logits):
        ids = np.flatnonzero(logits >= np.partition(logits, -sampling.top_k)[-sampling.top_k])
    falls = (logits[best] - (logits if ids is None else logits[ids])) / np.float32(sampling.temperature)
    weights = np.exp(-falls)
    if sampling.top_p < 1:
        kept = _nucleus(falls, weights, sampling.top_p)
        weights, ids = weights[kept], kept if ids is None else ids[kept]
    if sampling.min_p > 0:
        likely = np.flatnonzero(weights >= np.float32(sampling.min_p))
        weights, ids = weights[likely], likely if ids is None else ids[likely]
    return ids, weights


def _nucleus(falls: Logits, weights: Logits, top_p: float) -> Ids:
    """Places of the likeliest tokens that together reach `top_p`, rising.

    falls  how far each lies below the likeliest, in nats >= 0; weights = exp(-falls)
    Sorting a whole vocabulary is slow. Mostly the nucleus is among a few likely tokens; otherwise tokens are counted
    into bins by their falls, and only the bin in which the border lies is sorted.
    """
    enough = top_p * weights.sum(dtype=np.float64)
    for least in _LIKELY:
        likely = np.flatnonzero(weights > least)
        if len(likely) > _FEW:
            break
        if weights[likely].sum(dtype=np.float64) >= enough:
            return np.sort(_until(likely, falls, weights, enough))
    bins = np.minimum(falls * np.float32(_BINS_A_NAT), _BINS - 1).astype(np.int64)
    reached = np.bincount(bins, weights, _BINS).cumsum()
    border = min(int(reached.searchsorted(enough)), _BINS - 1)
    kept = bins < border
    left = enough - (reached[border - 1] if border else 0.0)
    kept[_until(np.flatnonzero(bins == border), falls, weights, left)] = True
    return np.flatnonzero(kept)


def _until(places: Ids, falls: Logits, weights: Logits, enough: float) -> Ids:
    """The likeliest of these places (ties: first ones first) that together weigh enough, or all."""
    order = places[np.argsort(falls[places], kind="stable")]
    return order[: int(weights[order].cumsum(dtype=np.float64).searchsorted(enough)) + 1]


def scores(logits: Logits, token: int, top: int, *, moments: bool = False) -> TokenScore:
    """Log-probability of a token under softmax of the logits [V], and of the `top` likeliest (ties: smaller ids).

    moments  mean and variance of the log-probability of a token drawn from the logits too
    Raises NotNumbersError.
    """
    with np.errstate(all="ignore"):
        largest = logits.max()
        weights = np.exp(logits - largest)
        sum_of_weights = weights.sum(dtype=np.float64)
        total = largest + np.log(sum_of_weights)
    if not np.isfinite(total):
        raise NotNumbersError
    spread = _moments(logits, weights, float(sum_of_weights), float(total)) if moments else (0.0, 0.0)
    return TokenScore(token, float(logits[token] - total), _likeliest(logits, float(total), top), *spread)


def _moments(logits: Logits, weights: Logits, sum_of_weights: float, total: float) -> tuple[float, float]:
    """Mean and variance of log p under p = weights / sum_of_weights; what has no weight counts for nothing."""
    log_probs = np.where(weights > 0, logits - np.float32(total), np.float32(0))
    mean = float(np.vdot(weights, log_probs)) / sum_of_weights
    deviations = log_probs - np.float32(mean)
    return mean, float(np.vdot(weights, deviations * deviations)) / sum_of_weights


def _likeliest(logits: Logits, total: float, top: int) -> tuple[tuple[int, float], ...]:
    if top <= 0:
        return ()
    top = min(top, len(logits))
    ids = np.flatnonzero(logits >= np.partition(logits, -top)[-top])
    ids = ids[np.argsort(-logits[ids], kind="stable")][:top]
    return tuple((int(token), float(logits[token] - total)) for token in ids)


def _has_penalties(sampling: Sampling) -> bool:
    return (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) != (1, 0, 0)
