"""A model's chat template writes what transformers writes with it, in a sandbox."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from jinja2 import TemplateSyntaxError
from scripted_engine import byte_tokenizer, make_spec

from models.errors import InputError
from services.openai.chat_template import ChatTemplate

SPEC = replace(make_spec(byte_tokenizer()), bos_text="<s>", eos_text="</s>")
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA2 = """
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate user and assistant') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + (system + '\n' if loop.first and system is defined else '') + message.content | trim }}
        {{- ' [/INST]' }}
    {%- else %}
        {%- generation %}{{ ' ' + message.content + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
"""
CURIOUS = """
{% for message in messages %}
    {% if loop.index > 2 %}{% break %}{% endif %}
{{ loop.index }} {{ message | tojson }} {{ {"ä": "<b>"} | tojson(indent=1) }}
{% endfor %}
{{ tools is none }} {{ documents is none }} {{ missing is defined }} {{ strftime_now("%")|length > 0 }}
"""
TALKS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  What's <this>?\n"}],
    [
        {"role": "user", "content": "eins", "name": "Åsa"},
        {"role": "assistant", "content": "zwei"},
        {"role": "user", "content": "drei 🙂"},
    ],
]


@pytest.mark.parametrize("talk", TALKS, ids=range(len(TALKS)))
@pytest.mark.parametrize("source", [SMOLLM2, LLAMA2, CURIOUS], ids=["smollm2", "llama2", "curious"])
def test_the_text_is_that_of_transformers(source: str, talk: list[dict[str, Any]]) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    words = {"bos_token": "<s>", "eos_token": "</s>"}
    (expected,), _ = render_jinja_template([talk], chat_template=source, add_generation_prompt=True, **words)
    assert ChatTemplate(source, SPEC).render(talk) == expected


def test_what_a_template_refuses_is_refused_in_its_words() -> None:
    twice = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(InputError, match="roles must alternate") as caught:
        ChatTemplate(LLAMA2, SPEC).render(twice)
    assert (caught.value.code, caught.value.field) == ("invalid_request", "messages")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{% set x = messages.append(1) %}",
        "{% include '/etc/passwd' %}",
        "{{ 1 // 0 }}",
        "{{ messages[0].content + 1 }}",
    ],
)
def test_a_template_that_reaches_out_of_the_sandbox_gets_nowhere(source: str) -> None:
    try:
        written = ChatTemplate(source, SPEC).render(TALKS[0])
    except InputError as refusal:
        assert refusal.field == "messages"
        assert "/" not in refusal.message
    else:
        assert written == ""


def test_a_template_that_is_none_is_found_out_when_it_is_loaded() -> None:
    with pytest.raises(TemplateSyntaxError):
        ChatTemplate("{% for %}", SPEC)
