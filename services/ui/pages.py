"""The playground's files, from a table made once at start: no path of a request ever reaches the file system.

GET /ui        on to /ui/, relatively, so that a prefix a proxy adds stays
GET /ui/FILE   one of the files below static/; 304 where the caller's copy (If-None-Match) is the same

The files are open to everyone, as the documentation is: they hold nothing. What the page asks of the API needs the
same key as anybody's request.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from services.core.http.exchange import Exchange, Response
from services.core.http.routes import Handler, Params, Routes
from services.core.http.turn import Headers

ROOT, LABEL, INDEX = "/ui/", "/ui", "index.html"
TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
    "webp": b"image/webp",
    "txt": b"text/plain; charset=utf-8",
}
# Scripts and styles come from here alone and none stand in the page; text never becomes markup; nothing else may frame
# the page. Pictures may be the caller's own (blob:) and those inside answers (data:).
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    b"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFE: Headers = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@dataclass(frozen=True)
class Asset:
    """One file. etag: of its bytes, quoted."""

    body: bytes
    content_type: bytes
    etag: bytes

    async def answer(self, exchange: Exchange, params: Params) -> Response:
        """The file, or that the caller has it."""
        headers: Headers = [(b"etag", self.etag), (b"cache-control", b"no-cache"), *SAFE]
        known = exchange.headers.get(b"if-none-match", b"")
        if known == b"*" or self.etag in (one.strip().removeprefix(b"W/") for one in known.split(b",")):
            return Response(b"", 304, self.content_type, headers)
        return Response(self.body, 200, self.content_type, headers)


def register(routes: Routes) -> None:
    """Add the playground to a service's routes."""
    routes.add("GET", ROOT.rstrip("/"), _on_to_root, label=LABEL, scope=None)
    for path, asset in read_assets().items():
        handler: Handler = asset.answer
        routes.add("GET", ROOT + path, handler, label=LABEL, scope=None)
        if path == INDEX:
            routes.add("GET", ROOT, handler, label=LABEL, scope=None)


def read_assets() -> dict[str, Asset]:
    """Every file below static/ by its path there. Raises KeyError for a kind of file that has no content type."""
    return {path: _asset(path, file.read_bytes()) for path, file in _walk(files(__package__) / "static", "")}


async def _on_to_root(exchange: Exchange, params: Params) -> Response:
    return Response(b"", 308, TYPES["txt"], [(b"location", b"ui/"), (b"cache-control", b"no-cache")])


def _asset(path: str, body: bytes) -> Asset:
    return Asset(body, TYPES[path.rpartition(".")[2]], f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode())


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        path = prefix + entry.name
        found += _walk(entry, path + "/") if entry.is_dir() else [(path, entry)]
    return found
