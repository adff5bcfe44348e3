"""What can be wrong with a network, and what went wrong with one sequence, as its caller may know it."""

from __future__ import annotations

import logging

from models.errors import InputError
from services.core.errors import ApiError
from services.generation.request import GenerationRequest
from services.generation.sampling import NotNumbersError, RuledOutError

log = logging.getLogger("pressroom.generation")


class GraphError(ValueError):
    """The network is not one the engine can run; the message, for the operator, says what it lacks."""


def model_failed(fault: BaseException) -> ApiError:
    """The network raised, or its logits are not numbers."""
    fault.__traceback__ = None  # its frames hold the request
    return ApiError(
        "inference_failed", "the model failed on this request", hint="report the request id to the operator"
    )


def not_chosen(fault: Exception) -> ApiError:
    """No token could be chosen: the network's fault, the request's, or that of a processor or grammar."""
    if isinstance(fault, NotNumbersError):
        log.error("the network's logits are not numbers")
        return model_failed(fault)
    if isinstance(fault, RuledOutError):
        return ApiError(
            "value_out_of_range",
            "no token is left to choose from",
            hint="the request's penalties, biases or processors overflow or rule out every token",
        )
    if not isinstance(fault, ApiError | InputError):
        log.error("the next token of a sequence could not be chosen", exc_info=fault)
    return ApiError.of(fault)


def check_context(request: GenerationRequest, context: int) -> None:
    """Raise ApiError (context_length_exceeded) if prompt and longest answer are more than `context` tokens."""
    tokens = len(request.prompt) + request.max_tokens
    if tokens > context:
        raise ApiError(
            "context_length_exceeded",
            f"{len(request.prompt)} prompt tokens and up to {request.max_tokens} more are {tokens}",
            hint=f"this model takes {context} together; shorten the prompt or lower max_tokens",
        )
