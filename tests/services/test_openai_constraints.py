"""What an answer's text must be: every way of saying it becomes a grammar, and what is none is refused by place."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_engine import make_reader

from models.errors import InputError
from services.generation.grammar import json_object_grammar, json_schema_grammar
from services.openai.answering import read_request
from services.openai.completions import Completions
from services.openai.constraints import read_grammar
from services.openai.fields import Fields

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def read(**sent: Any) -> str | None:
    fields = Fields(sent)
    grammar = read_grammar(fields)
    fields.finish()
    return grammar


def test_free_text_needs_no_grammar() -> None:
    assert read() is None
    assert read(response_format={"type": "text"}) is None
    assert read(response_format=None, guided_json=None) is None


def test_a_schema_is_the_same_however_it_is_sent() -> None:
    wrapped = {"name": "person", "schema": SCHEMA, "strict": True, "description": "someone"}
    expected = json_schema_grammar(SCHEMA)
    assert read(response_format={"type": "json_schema", "json_schema": wrapped}) == expected
    assert read(guided_json=SCHEMA) == expected
    assert read(guided_json='{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}') == expected
    assert read(response_format={"type": "json_object"}) == json_object_grammar()


def test_expressions_choices_and_grammars_are_read() -> None:
    assert read(guided_regex="[0-9]+")
    assert read(guided_choice=["yes", 'a "quoted" no', "völlig\n"])
    assert read(guided_grammar='start: "a"+') == read(grammar='start: "a"+')


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "text", "colour": 1}}, "response_format.colour"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "text", "json_schema": {}}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "colour"}}}},
            "response_format.json_schema.schema",
        ),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": 7}, "guided_json"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"guided_regex": ""}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a", 7]}, "guided_choice[1]"),
        ({"guided_grammar": "start: ("}, "guided_grammar"),
        ({"grammar": 'begin: "a"'}, "grammar"),
        ({"guided_regex": "a", "guided_json": SCHEMA}, "guided_regex"),
    ],
)
def test_what_is_no_constraint_is_refused_by_place(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**sent)
    assert (caught.value.code, caught.value.field) == ("invalid_request", field)


def test_a_grammar_reaches_the_engine() -> None:
    request = {"prompt": "a", "guided_json": SCHEMA}
    (sequence,) = read_request(Completions, request, make_reader(), context=64).sequences
    assert sequence.grammar == json_schema_grammar(SCHEMA)
