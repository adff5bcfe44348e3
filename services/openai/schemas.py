"""Requests and answers of the two routes, as their OpenAPI document describes them.

Documentation only: the readers in this package validate, because their refusals name the place and the remedy. A
request may also have the fields of registered logits processors.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]


class StreamOptions(BaseModel):
    """How a stream is written."""

    include_usage: bool | None = Field(None, description="a last chunk tells the token counts")


class JsonSchema(BaseModel):
    """A named JSON schema."""

    name: str | None = None
    json_schema: Json = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(BaseModel):
    """What the text must be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class _Options(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one model is served")
    n: int | None = Field(None, ge=1, le=128, description="answers to each prompt; default: 1")
    stream: bool | None = Field(None, description="answer by server-sent events")
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = Field(None, description="the text ends before the first of these, at most 16")
    seed: int | None = Field(None, description="same seed, same request: same text")
    temperature: float | None = Field(None, ge=0, le=2, description="0: the likeliest token; default: 1")
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, description="0 or -1: off")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: dict[str, float] | None = Field(None, description="token id -> -100 to 100")
    response_format: ResponseFormat | None = None
    guided_json: Json | None = Field(None, description="a JSON schema the text must follow")
    guided_regex: str | None = Field(None, description="a regular expression the text must match")
    guided_choice: list[str] | None = Field(None, description="the text must be one of these")
    guided_grammar: str | None = Field(None, description="a Lark grammar the text must follow; also as `grammar`")
    ignore_eos: bool | None = Field(None, description="go on after the model's end token")
    return_token_ids: bool | None = Field(None, description="the answer's token ids come beside its text")
    watermark: Json | None = Field(
        None,
        description="the message the text shall carry, as in /v1/watermark/generate; where the server marks answers",
    )
    user: Any = Field(None, description="ignored")


class CompletionRequest(_Options):
    """Continue a text, in the manner of OpenAI's completions."""

    prompt: str | list[str] | list[int] | list[list[int]] = Field(description="text or token ids, one or several")
    max_tokens: int | None = Field(None, ge=0, description="tokens of the answer at most; default: 16")
    logprobs: int | None = Field(None, ge=0, le=20, description="log-probabilities of so many likeliest tokens")
    echo: bool | None = Field(None, description="begin with the prompt; with logprobs its tokens are scored too")


class TextPart(BaseModel):
    """A piece of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """What someone said."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None


class ChatRequest(_Options):
    """Answer a conversation, in the manner of OpenAI's chat completions."""

    messages: list[ChatMessage]
    max_tokens: int | None = Field(None, ge=1, description="tokens of the answer at most; default: what fits")
    max_completion_tokens: int | None = Field(None, ge=1, description="the same by its later name")
    logprobs: bool | None = Field(None, description="log-probabilities of the answer's tokens")
    top_logprobs: int | None = Field(None, ge=0, le=20, description="and of so many likeliest tokens")


class PromptDetails(BaseModel):
    """Of the prompt's tokens."""

    cached_tokens: int = Field(description="taken from the prefix cache")


class Usage(BaseModel):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class CompletionChoice(BaseModel):
    """One continuation."""

    index: int
    text: str
    logprobs: Json | None
    finish_reason: Literal["stop", "length"]


class AssistantMessage(BaseModel):
    """The model's turn."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(BaseModel):
    """One answer."""

    index: int
    message: AssistantMessage
    logprobs: Json | None
    finish_reason: Literal["stop", "length"]


class _Answer(BaseModel):
    id: str
    created: int
    model: str
    system_fingerprint: str = Field(description="digest of the artifact that answered, sha256:<hex>")
    usage: Usage
    pressroom: Json = Field(description="model, version, digest, request_id, timings, batch_rows")


class CompletionResponse(_Answer):
    """Continuations in the order of the prompts."""

    object: Literal["text_completion"]
    choices: list[CompletionChoice]


class ChatResponse(_Answer):
    """Answers to one conversation."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]


COMPLETION_EXAMPLE: Json = {"model": "smollm2", "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
CHAT_EXAMPLE: Json = {
    "model": "smollm2",
    "messages": [{"role": "user", "content": "Name three primary colours."}],
    "max_tokens": 32,
    "temperature": 0,
}
