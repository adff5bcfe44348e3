"""Routes: exact paths, templates of segments, methods, labels; and the stage clock of a call."""

from __future__ import annotations

from typing import Any

import pytest

from services.core.call import Call, request_id_from
from services.core.http.routes import Routes


async def handler(exchange: Any, params: Any) -> Any:
    raise AssertionError("never called here")


@pytest.fixture
def routes() -> Routes:
    table = Routes()
    table.add("GET", "/v1/models", handler)
    table.add("GET", "/v1/models/{model}", handler)
    table.add("GET", "/v2/models/{name}", handler, label="/v2/models/{name}")
    table.add("POST", "/v2/models/{name}/infer", handler)
    table.add("GET", "/v2/models/{name}/infer", handler)
    table.add("POST", "/v2/models/{name}/versions/{version}/infer", handler, label="/v2/models/{name}/infer")
    return table


@pytest.mark.parametrize(
    ("path", "label", "params"),
    [
        ("/v1/models", "/v1/models", {}),
        ("/v1/models/card:1", "/v1/models/{model}", {"model": "card:1"}),
        ("/v2/models/card", "/v2/models/{name}", {"name": "card"}),
        ("/v2/models/versions/infer", "/v2/models/{name}/infer", {"name": "versions"}),
        ("/v2/models/a/versions/7/infer", "/v2/models/{name}/infer", {"name": "a", "version": "7"}),
    ],
)
def test_a_path_finds_its_template_and_the_values(
    routes: Routes, path: str, label: str, params: dict[str, str]
) -> None:
    found = routes.find(path)
    assert found is not None
    methods, values = found
    assert {route.label for route in methods.values()} == {label}
    assert values == params


@pytest.mark.parametrize(
    "path",
    ["", "/", "/v1", "/v1/models/", "/v2/models//infer", "/v2/models/a/b/c", "/v2/models/a/infer/", "/V1/models"],
)
def test_other_paths_find_nothing(routes: Routes, path: str) -> None:
    assert routes.find(path) is None


def test_methods_of_one_template_are_kept_together(routes: Routes) -> None:
    found = routes.find("/v2/models/card/infer")
    assert found is not None
    assert set(found[0]) == {"GET", "POST"}


# --- the call


def test_the_stages_of_a_call_add_up_to_its_time() -> None:
    call = Call("/test", "none", "id")
    start = call.started
    call.ran(start + 1, start + 3, start + 6, batch_rows=4)
    call.finished = start + 10
    assert call.stages() == pytest.approx({"preprocess": 1, "queue": 2, "inference": 3, "postprocess": 4})
    timings = call.timings()
    assert timings["total_ms"] == pytest.approx(10_000)
    assert sum(timings.values()) == pytest.approx(20_000)


def test_a_call_no_model_ran_for_was_all_preprocessing() -> None:
    call = Call("/test", "none", "id")
    call.finish()
    stages = call.stages()
    assert stages["preprocess"] == pytest.approx(call.finished - call.started)
    assert (stages["queue"], stages["inference"], stages["postprocess"]) == (0, 0, 0)


@pytest.mark.parametrize("sent", ["a", "A-b_c.9", "~" * 128, "!"])
def test_a_visible_ascii_id_is_kept(sent: str) -> None:
    assert request_id_from(sent) == sent


@pytest.mark.parametrize("sent", [None, "", " ", "a b", "a\n", "a\n\n", "é", "a" * 129, "\x7f"])
def test_any_other_id_is_replaced_by_a_new_one(sent: str | None) -> None:
    first, second = request_id_from(sent), request_id_from(sent)
    assert first != second
    assert sent not in (first, second)
    assert len(first) == 24
