"""Detection requests as they come: what is understood, and what is refused by which name."""

from __future__ import annotations

from typing import Any

import pytest

from models.dna_gpt.detector import DetectorSpec, Generator
from models.errors import InputError
from services.text_detection.request import SentText, read_request

SPEC = DetectorSpec(generator=Generator(name="lm", version="1", digest="sha256:0", tokenizer_digest="sha256:1"))


def read(request: dict[str, Any]) -> Any:
    return read_request(request, SPEC, most_texts=3)


def test_one_text_is_asked_about_as_the_detector_would() -> None:
    found = read({"model": "m", "version": "1", "text": "hello"})
    assert found.texts == (SentText(None, "hello"),)
    assert (found.mode, found.statistic, found.regenerations, found.shows_texts) == ("white_box", "curvature", 5, False)


def test_several_texts_keep_their_names_and_order() -> None:
    found = read({"texts": ["a", {"text": "b", "id": "second"}, {"text": "c"}]})
    assert found.texts == (SentText(None, "a"), SentText("second", "b"), SentText(None, "c"))


def test_everything_can_be_chosen() -> None:
    body = {"mode": "black_box", "statistic": "formula", "regenerations": 0, "return_regenerations": True}
    found = read({"text": "", **body})
    assert (found.mode, found.statistic, found.regenerations, found.shows_texts) == tuple(body.values())


@pytest.mark.parametrize(
    ("request_", "code", "field"),
    [
        ({}, "invalid_request", "text"),
        ({"text": "a", "texts": ["b"]}, "invalid_request", "text"),
        ({"text": None}, "invalid_request", "text"),
        ({"text": 3}, "invalid_request", "text"),
        ({"text": ["a"]}, "invalid_request", "text"),
        ({"text": "a\ud800b"}, "invalid_request", "text"),
        ({"texts": "a"}, "invalid_request", "texts"),
        ({"texts": {}}, "invalid_request", "texts"),
        ({"texts": []}, "empty_batch", "texts"),
        ({"texts": ["a"] * 4}, "too_many_rows", "texts"),
        ({"texts": ["a", 1]}, "invalid_request", "texts[1]"),
        ({"texts": [{"id": "x"}]}, "invalid_request", "texts[0].text"),
        ({"texts": [{"text": "a", "id": 5}]}, "invalid_request", "texts[0].id"),
        ({"texts": [{"text": "a", "author": "me"}]}, "invalid_request", "texts[0].author"),
        ({"texts": ["a", {"text": "\udfff"}]}, "invalid_request", "texts[1].text"),
        ({"text": "a", "mode": "grey_box"}, "invalid_request", "mode"),
        ({"text": "a", "mode": 1}, "invalid_request", "mode"),
        ({"text": "a", "statistic": "perplexity"}, "invalid_request", "statistic"),
        ({"text": "a", "mode": "black_box", "statistic": "w_score"}, "invalid_request", "statistic"),
        ({"text": "a", "regenerations": -1}, "invalid_request", "regenerations"),
        ({"text": "a", "regenerations": 65}, "invalid_request", "regenerations"),
        ({"text": "a", "regenerations": 2.0}, "invalid_request", "regenerations"),
        ({"text": "a", "regenerations": True}, "invalid_request", "regenerations"),
        ({"text": "a", "return_regenerations": "yes"}, "invalid_request", "return_regenerations"),
        ({"text": "a", "url": "http://elsewhere"}, "invalid_request", "url"),
        ({"text": "a", "threshold": 0.1}, "invalid_request", "threshold"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(request_: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InputError) as caught:
        read(request_)
    assert (caught.value.code, caught.value.field) == (code, field)
