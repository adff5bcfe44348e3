"""Streams of tokens from a scripted server, with gaps that are told: counted values, and what is refused."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from scripted_peer import http_peer, json_response, post, respond

from export.errors import ExportError, OptionError
from pressroom.bench_load import Load, Tally
from pressroom.bench_run import Pace
from pressroom.bench_target import ask_model, read_server
from pressroom.bench_text import PROMPTS, Prompting, TextLine, TextWindow, measure_text

PACE = Pace(seconds=0.15, warm=0.0, stability=10.0, max_windows=3)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(document):
    return b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n"


def text(piece):
    return event({"choices": [{"text": piece, "index": 0}]})


def usage(tokens):
    return event({"choices": [], "usage": {"completion_tokens": tokens}})


DONE = event(b"[DONE]")


def streamed(parts):
    """A script that sends each part as a chunk of its own."""

    async def script(path, body, writer):
        writer.write(HEAD)
        for part in parts:
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    return script


async def heard(script):
    """What one line hears of one answer: its outcome, and the window."""
    async with http_peer(script) as port:
        tally = Tally([post()], TextWindow)
        answer = asyncio.get_running_loop().create_future()
        TextLine(read_server(f"http://127.0.0.1:{port}", None, "", None), tally).ask(post(), answer.set_result)
        return await asyncio.wait_for(answer, 10), tally.window


async def test_tokens_are_those_of_the_usage_and_gaps_those_between_texts(monkeypatch):
    monkeypatch.setattr("pressroom.bench_text.perf_counter", itertools.count().__next__)  # read as sent, then by text
    parts = [text("a"), text(""), text("b"), text("c"), usage(5), DONE]
    outcome, window = await heard(streamed(parts))
    assert outcome.failure == ""
    (one,) = window.spoken
    assert one.tokens == 5
    assert (one.first, one.gaps) == (1, [1, 1])  # three texts; the empty one is no token


async def test_without_usage_every_text_counts_as_one_token():
    _, window = await heard(streamed([text("a"), event({"choices": [{"delta": {"content": "b"}}]}), DONE]))
    assert window.spoken[0].tokens == 2


async def test_events_cut_anywhere_are_read():
    whole = text("a") + text("b") + usage(2) + DONE
    outcome, window = await heard(streamed([whole[at : at + 3] for at in range(0, len(whole), 3)]))
    assert (outcome.failure, window.spoken[0].tokens) == ("", 2)


REFUSED = {"error": {"code": "queue_full", "message": "come back"}}


@pytest.mark.parametrize(
    ("script", "failure", "said"),
    [
        (lambda path, body, writer: writer.write(json_response(REFUSED, "429 Full")), "429 queue_full", b"come back"),
        (streamed([text("a"), event(REFUSED)]), "200 queue_full", b"come back"),
        (streamed([usage(0), DONE]), "no text", b""),
        (streamed([event(b"not json")]), "connection lost", None),
        (lambda path, body, writer: writer.transport.abort(), "connection lost", None),
    ],
    ids=["refused", "error-in-stream", "no-text", "no-json", "cut"],
)
async def test_what_is_no_answer_is_a_failure_and_not_heard(script, failure, said):
    outcome, window = await heard(script)
    assert outcome.failure == failure
    assert said is None or outcome.body == said
    assert window.spoken == []


async def test_a_measurement_counts_streams_in_its_windows():
    async with http_peer(streamed([text("a"), text("b"), usage(2), DONE])) as port:
        server = read_server(f"http://127.0.0.1:{port}", None, "", None)
        (found,) = await measure_text(server, Prompting(model="m"), [Load(clients=2)], PACE, lambda *_: None)
    window = found.settled
    assert isinstance(window, TextWindow)
    assert found.failed.total() == 0
    assert len(window.spoken) == len(window.latencies) > 3
    assert window.tokens_rate == pytest.approx(2 * window.rate)


async def test_a_first_request_that_is_refused_stops_the_measurement_with_its_reason():
    async with http_peer(lambda path, body, writer: writer.write(respond("404 Not Found", b"no such route"))) as port:
        server = read_server(f"http://127.0.0.1:{port}", None, "", None)
        with pytest.raises(ExportError, match="first request failed: 404: no such route"):
            await measure_text(server, Prompting(model="m"), [Load(clients=1)], PACE, lambda *_: None)


def test_every_prompt_is_another_and_the_seed_repeats_them():
    server = read_server("http://h:1", None, "key", None)
    asked = Prompting(model="m", words=12, tokens=7)
    first = asked.requests(server, seed=1)
    assert first == asked.requests(server, seed=1)
    assert len(set(first)) == PROMPTS
    head, _, body = first[0].partition(b"\r\n\r\n")
    assert b"POST /v1/completions HTTP/1.1" in head
    assert b"Authorization: Bearer key" in head
    document = json.loads(body)
    assert len(document.pop("prompt").split()) == 12
    streamed_with_usage = {"stream": True, "stream_options": {"include_usage": True}}
    assert document == {"model": "m", "max_tokens": 7, "temperature": 0, "ignore_eos": True, **streamed_with_usage}


def test_a_request_of_ones_own_is_sent_as_it_is_but_streamed():
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
    (request,) = Prompting(model="m", chat=True, body=body).requests(read_server("http://h", None, "", None), 0)
    document = json.loads(request.partition(b"\r\n\r\n")[2])
    assert request.startswith(b"POST /v1/chat/completions")
    assert document == {"model": "m", **body, "stream": True, "stream_options": {"include_usage": True}}


async def test_a_server_with_a_list_of_models_alone_is_known_by_it():
    def script(path, body, writer):
        listed = {"object": "list", "data": [{"id": "llama"}]}
        writer.write(json_response(listed) if path == "/v1/models" else respond("404 Not Found", b""))

    async with http_peer(script) as port:
        server = read_server(f"http://127.0.0.1:{port}", None, "", None)
        model = await asyncio.to_thread(ask_model, server, "llama")
        with pytest.raises(OptionError, match="serves no model 'alpaca'") as refused:
            await asyncio.to_thread(ask_model, server, "alpaca")
    assert (model.name, model.inputs, model.example, model.generates) == ("llama", (), None, False)
    assert refused.value.hint == "it serves llama"
