"""The model's own chat template: messages -> the text it was trained to continue.

Templates are programs that come with a checkpoint: they run in Jinja's immutable sandbox, without the file system,
imports or loaders, and see plain data only. What transformers gives its templates is here too, so that the text is
the same.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from models.errors import InputError
from models.llm.spec import LanguageModelSpec

Message = dict[str, Any]


class ChatTemplate:
    """One model's template. Raises TemplateError if it cannot be read."""

    def __init__(self, source: str, spec: LanguageModelSpec) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        self._template = environment.from_string(source)
        self._words = {"bos_token": spec.bos_text, "eos_token": spec.eos_text}

    @classmethod
    def from_file(cls, path: Path, spec: LanguageModelSpec) -> ChatTemplate:
        """Read `chat_template.jinja`."""
        return cls(path.read_text(encoding="utf-8"), spec)

    def render(self, messages: list[Message]) -> str:
        """The prompt an assistant's answer follows. Raises InputError in the template's own words."""
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=True, tools=None, documents=None, **self._words
            )
        except TemplateError as fault:
            said = fault.message or type(fault).__name__
            raise InputError("invalid_request", f"the model's chat template says: {said}", field="messages") from None
        except Exception:  # a foreign program may fail in any way
            raise InputError(
                "invalid_request", "the model's chat template cannot write these messages", field="messages"
            ) from None


class _GenerationBlock(Extension):
    """`{% generation %}` marks the assistant's words for training; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012 -- Jinja reads it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own filter, this one escapes nothing for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(str(message))


def _now(form: str) -> str:
    return datetime.now().strftime(form)
