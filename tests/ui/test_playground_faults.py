"""What the playground replaces lets go: charts, tabs, conversations, what a model offered. And the headers of a 304."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

import pytest
from browsing import Playground
from live_server import LiveServer

Json = dict[str, Any]

in_browser = pytest.mark.needs("chromium")


# --- charts

_COUNT_LISTENERS = """
    const heard = window.heard = new Set(), kind = MediaQueryList.prototype;
    const {addEventListener, removeEventListener} = kind;
    const ours = (query, listener, change) => query.media.includes("color-scheme") && change(listener);
    kind.addEventListener = function (name, listener) {
      ours(this, listener, (one) => heard.add(one));
      addEventListener.call(this, name, listener);
    };
    kind.removeEventListener = function (name, listener) {
      ours(this, listener, (one) => heard.delete(one));
      removeEventListener.call(this, name, listener);
    };
"""


@in_browser
def test_a_chart_listens_to_the_colour_scheme_only_while_it_is_shown(page: Playground) -> None:
    def listeners(count: int, what: str) -> None:
        page.until(lambda: page.script("return window.heard.size") == count, what, 10)

    page.script(_COUNT_LISTENERS)
    page.answer("Forecast")
    listeners(1, "the chart listens")
    for column in ("HUFL", "LULL", "OT"):
        page.choose("Column", column)
        page.until(lambda: page.all(".plot canvas"), "the next chart")
    listeners(1, "charts that were replaced do not listen")
    page.script("document.querySelector('.plot canvas').dataset.light = ''")
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.until(lambda: page.all(".plot canvas:not([data-light])"), "it is drawn for the dark", 10)
    page.tab("models")
    listeners(0, "a hidden chart does not listen")
    page.tab("forecast")
    listeners(1, "it is back")
    assert len(page.all(".plot canvas")) == 1


# --- tabs


@in_browser
def test_tabs_shown_anew_take_the_place_of_the_old_ones(page: Playground) -> None:
    for _ in range(3):
        page.script("document.querySelector('[role=tab]').dataset.old = ''")
        page.script("document.querySelector('#key-form').requestSubmit()")
        page.until(lambda: page.all("[role=tab]:first-child:not([data-old])"), "the tabs are shown anew")
    page.requested()
    page.script("location.hash = '#models'")
    page.until(lambda: page.all("#panel-models table"), "the model's description")
    assert [one.rpartition("/")[2] for one in page.requested()].count("metrics") == 1


# --- chat

_HOLD_CHATS = """
    const real = window.fetch;
    window.held = [];
    window.fetch = (address, options) => {
      if (!address.endsWith("/v1/chat/completions")) return real(address, options);
      const one = { sent: JSON.parse(options.body), signal: options.signal };
      window.held.push(one);
      return Promise.resolve(new Response(new ReadableStream({ start: (stream) => { one.stream = stream; } })));
    };
"""
_TELL = """
    const [at, data] = arguments;
    window.held[at].stream.enqueue(new TextEncoder().encode(`data: ${data}\\n\\n`));
"""
_EXPLAINED = {
    "model": "smollm2", "version": "1", "digest": "sha256:00", "request_id": "1", "batch_rows": 1,
    "timings": {"preprocess_ms": 1, "queue_ms": 1, "inference_ms": 1, "postprocess_ms": 1, "total_ms": 4},
}  # fmt: skip
_LAST = {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 2}, "pressroom": _EXPLAINED}
_REFUSED = {"error": {"code": "overloaded", "message": "too many at once"}}


@pytest.fixture
def chat(page: Playground) -> Playground:
    """The Chat tab; its answers are held for `tell`."""
    page.script(_HOLD_CHATS)
    page.tab("chat")
    return page


def send(page: Playground, text: str) -> list[Json]:
    """Send a message; what both sides asked."""
    before: int = page.script("return window.held.length")
    page.write("Message", text)
    page.press("Send")
    page.until(lambda: page.script("return window.held.length") == before + 2, "both sides ask", 10)
    asked: list[Json] = page.script("return window.held.slice(arguments[0]).map((one) => one.sent)", before)
    return asked


def tell(page: Playground, at: int, *documents: Json | str) -> None:
    """Stream documents to the request that was made as number `at`."""
    for document in documents:
        page.script(_TELL, at, document if isinstance(document, str) else json.dumps(document))


def piece(text: str) -> Json:
    return {"choices": [{"delta": {"content": text}}]}


def ended(page: Playground) -> str:
    """What the status says once nothing is awaited any more."""
    page.until(lambda: not page.all("#panel-chat [aria-busy=true]"), "the end of it", 10)
    return page.one("#panel-chat .status").text


@in_browser
@pytest.mark.parametrize("model_changes", [False, True])
def test_an_answer_that_outlives_its_conversation_is_no_part_of_the_next(chat: Playground, model_changes: bool) -> None:
    send(chat, "first")
    for at in (0, 1):
        tell(chat, at, piece("An early"))
    chat.until(lambda: len(chat.all(".assistant:not(:empty)")) == 2, "both stream", 10)
    if model_changes:
        for side in ("Left", "Right"):
            chat.choose(
                side,
                chat.labelled(side).find_elements("css selector", "option:not(:checked)")[0].get_attribute("value"),
            )
    else:
        chat.press("New conversation")
    tell(chat, 0, piece(" answer"), _LAST, "[DONE]")
    tell(chat, 1, _REFUSED)
    ended(chat)
    assert chat.all(".log p, #panel-chat .explanation, #panel-chat .problem") == []
    for asked in send(chat, "second"):
        assert asked["messages"] == [{"role": "user", "content": "second"}]
    for at in (2, 3):
        tell(chat, at, piece("Yes."), _LAST, "[DONE]")
    assert ended(chat) == "Answered."
    for asked in send(chat, "third"):
        assert [one["content"] for one in asked["messages"]] == ["second", "Yes.", "third"]


@in_browser
@pytest.mark.parametrize(("answering", "said"), [(0, "Not answered."), (1, "One of two answered."), (2, "Answered.")])
def test_the_status_says_how_many_answered(chat: Playground, answering: int, said: str) -> None:
    send(chat, "hello")
    for at in (0, 1):
        tell(chat, at, *((piece("Hi."), _LAST, "[DONE]") if at < answering else (_REFUSED,)))
    assert ended(chat) == said
    assert len(chat.all("#panel-chat .problem")) == 2 - answering


# --- what a model offers

_CHOOSE_THE_SECOND = """(() => {{
  const made = module.{build}(given[0]), box = made.querySelector("select");
  const read = () => {read};
  const first = read();
  box.value = given[0][1].id;
  box.dispatchEvent(new Event("change"));
  return [first, read()];
}})()"""


@in_browser
@pytest.mark.parametrize(
    ("module", "build", "read", "offered", "expected"),
    [
        (
            "text_origin.js", "textOrigin", "[...made.querySelectorAll('select')[1].options].map((one) => one.value)",
            [{"modes": ["white_box", "black_box"]}, {"modes": ["black_box"]}],
            [["white_box", "black_box"], ["black_box"]],
        ),
        (
            "watermark.js", "watermark", "made.querySelector('.lead').textContent.match(/[0-9][0-9,]*/g)",
            [{"settings": {"scheme": {"message_bits": bits}}, "tokens_for_one_segment": 99} for bits in (8, 10)],
            [["8", "255,"], ["10", "1,023,"]],
        ),
        (
            "records.js", "records", "[...made.querySelectorAll('datalist option')].map((one) => one.value).slice(3)",
            [{"pretraining_tasks": ["nervous"]}, {"pretraining_tasks": ["ear", "skin"]}],
            [["nervous"], ["ear", "skin"]],
        ),
    ],
)  # fmt: skip
def test_what_is_offered_follows_the_chosen_model(
    page: Playground, module: str, build: str, read: str, offered: list[Json], expected: list[list[str]]
) -> None:
    models = [{"id": name, "version": "1"} | more for name, more in zip("ab", offered, strict=True)]
    assert page.imported(module, _CHOOSE_THE_SECOND.format(build=build, read=read), models) == expected


# --- headers


def test_a_304_names_no_length_and_the_connection_goes_on(every_server: LiveServer) -> None:
    connection = HTTPConnection("127.0.0.1", every_server.port, timeout=30)
    try:
        for headers, status in (({"If-None-Match": "*"}, 304), ({}, 200), ({"If-None-Match": "*"}, 304)):
            connection.request("GET", "/ui/app.js", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, bool(body)) == (status, status == 200)
            assert answer.getheader("content-length") == (None if status == 304 else str(len(body)))
            assert answer.getheader("transfer-encoding") is None
    finally:
        connection.close()
