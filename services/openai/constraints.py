"""What the answer's text must look like: JSON, a schema, a regular expression, one of some choices, or a grammar.

`response_format` is OpenAI's field; the `guided_` ones are those of other servers. At most one may be sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from models.errors import InputError
from services.generation.grammar import json_object_grammar, json_schema_grammar, lark_grammar, regex_grammar
from services.openai.fields import Fields, refuse

_MOST_CHOICES = 1000


def read_grammar(fields: Fields) -> str | None:
    """The grammar of a request, None if the text is free. Raises InputError naming the field."""
    found: dict[str, str] = {}
    for name, read in _READERS.items():
        sent = fields.raw(name)
        if sent is not None and (grammar := _located(name, read, sent)) is not None:
            found[name] = grammar
    if len(found) > 1:
        first, second = list(found)[:2]
        raise InputError("invalid_request", f"{second}: {first} constrains the text already", field=second)
    return next(iter(found.values()), None)


def _located(name: str, read: Callable[[Any], str | None], sent: Any) -> str | None:
    """Read a constraint; what the grammar library refuses gets the request's own field."""
    try:
        return read(sent)
    except InputError as fault:
        if fault.field is not None and fault.field.startswith(name):
            raise
        raise InputError(fault.code, fault.message, field=name, hint=fault.hint) from None


def _response_format(sent: Any) -> str | None:
    if not isinstance(sent, dict):
        raise refuse("response_format", sent, "an object")
    fields = Fields(sent, "response_format")
    kind = fields.raw("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise refuse("response_format.type", kind, "text, json_object or json_schema")
    wrapper = fields.object("json_schema")
    fields.finish()
    if kind == "json_schema":
        return _wrapped_schema(wrapper)
    if wrapper is not None:
        raise refuse("response_format.json_schema", wrapper, f"nothing, because type is {kind}")
    return json_object_grammar() if kind == "json_object" else None


def _wrapped_schema(wrapper: dict[str, Any] | None) -> str:
    if wrapper is None:
        raise refuse("response_format.json_schema", None, "an object with a schema")
    fields = Fields(wrapper, "response_format.json_schema")
    fields.ignore("name", "description", "strict")
    schema = fields.raw("schema")
    fields.finish()
    return _schema(schema, "response_format.json_schema.schema")


def _schema(sent: Any, field: str) -> str:
    if not isinstance(sent, dict | bool):
        raise refuse(field, sent, "a JSON schema")
    try:
        return json_schema_grammar(sent)
    except InputError as fault:
        raise InputError(fault.code, fault.message, field=field, hint=fault.hint) from None


def _guided_json(sent: Any) -> str:
    if isinstance(sent, str):
        try:
            sent = json.loads(sent)
        except ValueError:
            raise refuse("guided_json", sent, "a JSON schema") from None
    return _schema(sent, "guided_json")


def _text(name: str, make: Callable[[str], str]) -> Callable[[Any], str]:
    def read(sent: Any) -> str:
        if not isinstance(sent, str) or not sent:
            raise refuse(name, sent, "a string of at least one character")
        return make(sent)

    return read


def _guided_choice(sent: Any) -> str:
    if not isinstance(sent, list) or not 1 <= len(sent) <= _MOST_CHOICES:
        raise refuse("guided_choice", sent, f"a list of 1 to {_MOST_CHOICES} strings")
    for i, choice in enumerate(sent):
        if not isinstance(choice, str) or not choice:
            raise refuse(f"guided_choice[{i}]", choice, "a string of at least one character")
    return lark_grammar("start: " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in sent))


_READERS: dict[str, Callable[[Any], str | None]] = {
    "response_format": _response_format,
    "guided_json": _guided_json,
    "guided_regex": _text("guided_regex", regex_grammar),
    "guided_choice": _guided_choice,
    "guided_grammar": _text("guided_grammar", lark_grammar),
    "grammar": _text("grammar", lark_grammar),
}
CONSTRAINTS = tuple(_READERS)  # the fields' names
