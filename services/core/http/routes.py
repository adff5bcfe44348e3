"""Path templates to handlers. `{name}` matches one path segment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache

from services.core.auth import Scope
from services.core.errors import ApiError
from services.core.http.exchange import Envelope, Exchange, Response

Params = dict[str, str]
Handler = Callable[[Exchange, Params], Awaitable[Response | None]]  # None: the handler has streamed its response


@dataclass(frozen=True)
class Route:
    """One method of one path.

    label     what metrics call it; several templates may share one
    scope     what an API key must be allowed to do; None: open to everyone
    probe     health and scrape routes: not counted as requests
    envelope  the document of an error
    """

    template: str
    handler: Handler
    label: str
    scope: Scope | None = "infer"
    probe: bool = False
    envelope: Envelope = ApiError.envelope


class Routes:
    """All routes of the front, found by exact path first, then by segment count."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[str, Route]] = {}
        self._recent = lru_cache(maxsize=512)(self._search)
        self._by_length: dict[int, list[tuple[list[str], dict[str, Route]]]] = {}

    def add(
        self,
        method: str,
        template: str,
        handler: Handler,
        *,
        label: str = "",
        scope: Scope | None = "infer",
        probe: bool = False,
        envelope: Envelope = ApiError.envelope,
    ) -> None:
        self._recent.cache_clear()
        route = Route(template, handler, label or template, scope, probe, envelope)
        self._methods(template)[method] = route

    def find(self, path: str) -> tuple[dict[str, Route], Params] | None:
        """The methods of a path and the values of its placeholders, or None; to be read only."""
        return self._recent(path)

    def _search(self, path: str) -> tuple[dict[str, Route], Params] | None:
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        segments = path.split("/")
        for template, methods in self._by_length.get(len(segments), ()):
            params: Params = {}
            for expected, got in zip(template, segments, strict=True):
                if expected.startswith("{") and got:
                    params[expected[1:-1]] = got
                elif expected != got:
                    break
            else:
                return methods, params
        return None

    def _methods(self, template: str) -> dict[str, Route]:
        if "{" not in template:
            return self._exact.setdefault(template, {})
        segments = template.split("/")
        known = self._by_length.setdefault(len(segments), [])
        for other, methods in known:
            if other == segments:
                return methods
        methods = {}
        known.append((segments, methods))
        return methods
