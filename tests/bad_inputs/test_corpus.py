"""Every bad request of the corpus gets its named refusal, and the server is as well afterwards as before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import grpc
import pytest
from live_server import LiveServer, StartServer

from . import forecast, found, grpc_calls, headers, json_bodies, oip_binary, oip_json, repository, routes
from .case import GrpcCase, HttpCase
from .sending import answers_well, refused_grpc, refused_http

CHECK_EVERY = 25  # cases between two good requests
_HTTP: tuple[ModuleType, ...] = (json_bodies, forecast, oip_json, oip_binary, routes, headers, found)


def _named(cases: list[tuple[str, HttpCase]] | list[tuple[str, GrpcCase]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=f"{group}: {case.name}") for group, case in cases])


def _group(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


HTTP = [(_group(module), case) for module in _HTTP for case in module.CASES]
GRPC = [("grpc", c) for c in grpc_calls.CASES] + [(_group(m), c) for m in (headers, found) for c in m.GRPC_CASES]
KEYED_HTTP = [("repository", case) for case in repository.CASES]
KEYED_GRPC = [("repository", case) for case in repository.GRPC_CASES]


@pytest.fixture(scope="module")
def keyed(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> LiveServer:
    """A server with keys of every scope."""
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys.write_text(repository.key_file())
    return start_server(environment={"PRESSROOM_KEYS_FILE": str(keys)})


@pytest.fixture(scope="module")
def channel(server: LiveServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address, [("grpc.max_send_message_length", -1)]) as opened:
        yield opened


@pytest.fixture(scope="module")
def keyed_channel(keyed: LiveServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(keyed.grpc_address) as opened:
        yield opened


@pytest.fixture(scope="module")
def still_well(server: LiveServer) -> Iterator[Callable[[], None]]:
    """Called after each case: now and then, and at the end, a good request must be answered."""
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls % CHECK_EVERY == 0:
            answers_well(server)

    yield check
    answers_well(server)


def test_the_corpus_is_large_and_no_case_is_there_twice() -> None:
    wires = Counter(case.wire() for _, case in [*HTTP, *KEYED_HTTP])
    messages = Counter((c.path, c.message, c.metadata) for _, c in [*GRPC, *KEYED_GRPC])
    assert not [wire[:200] for wire, count in wires.items() if count > 1]
    assert not [key for key, count in messages.items() if count > 1]
    assert len(wires) + len(messages) >= 220


def test_no_table_is_longer_than_a_page_can_be() -> None:
    assert all(len(file.read_text().splitlines()) <= 300 for file in Path(__file__).parent.glob("*.py"))


@_named(HTTP)
def test_a_bad_http_request_is_refused_by_name(
    server: LiveServer, still_well: Callable[[], None], case: HttpCase
) -> None:
    refused_http(server, case)
    still_well()


@_named(GRPC)
def test_a_bad_grpc_call_is_refused_by_name(
    channel: grpc.Channel, still_well: Callable[[], None], case: GrpcCase
) -> None:
    refused_grpc(channel, case)
    still_well()


@_named(KEYED_HTTP)
def test_a_caller_without_the_right_key_or_command_is_refused(keyed: LiveServer, case: HttpCase) -> None:
    refused_http(keyed, case)


@_named(KEYED_GRPC)
def test_a_grpc_caller_without_the_right_key_or_command_is_refused(keyed_channel: grpc.Channel, case: GrpcCase) -> None:
    refused_grpc(keyed_channel, case)


def test_a_key_that_is_used_up_is_told_when_to_come_back(keyed: LiveServer) -> None:
    case = repository.USED_UP
    first, second = (keyed.post(case.path, content=case.content, headers=case.headers) for _ in range(2))
    assert (first.status_code, first.headers["ratelimit-remaining"]) == (200, "0")
    assert second.status_code == case.status
    assert second.json()["error"]["code"] == case.code
    assert 0 < second.json()["error"]["retry_after_ms"] <= 86_400_000
    assert 0 < int(second.headers["retry-after"]) <= 86_400


def test_after_all_refusals_the_server_with_keys_serves_what_it_served(keyed: LiveServer) -> None:
    headers = {"X-API-Key": repository.SECRETS["infer"]}
    served = {entry["id"]: entry["versions"] for entry in keyed.get("/v1/models", headers=headers).json()["data"]}
    assert served == {"card-etth1": ["1"], "itransformer-etth1": ["1"]}
    assert keyed.get("/readyz").status_code == 200
