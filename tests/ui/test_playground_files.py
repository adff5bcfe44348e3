"""The playground's files as a server hands them out, without a browser."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from services.core.call import Call
from services.core.http.routes import Routes
from services.core.settings import Settings
from services.ui.pages import POLICY, Asset, read_assets, register

STATIC = Path(__file__).parents[2] / "services" / "ui" / "static"


class Asked:
    """A request as an asset sees it."""

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        self.call = Call("/ui", "http", "1")


@pytest.fixture(scope="module")
def assets() -> dict[str, Asset]:
    return read_assets()


async def ask(asset: Asset, **headers: str) -> Any:
    return await asset.answer(Asked(**headers), {})  # type: ignore[arg-type]


async def test_every_file_is_served_as_what_it_is(assets: dict[str, Asset]) -> None:
    on_disk = {str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file()}
    assert set(assets) == on_disk
    for path, asset in assets.items():
        answer = await ask(asset)
        assert (answer.status, answer.body) == (200, (STATIC / path).read_bytes())
    types = {path.rpartition(".")[2]: asset.content_type for path, asset in assets.items()}
    assert types["js"] == b"text/javascript; charset=utf-8"
    assert types["webp"] == b"image/webp"


async def test_a_file_the_caller_has_is_not_sent_again(assets: dict[str, Asset]) -> None:
    asset = assets["app.js"]
    etag = dict((await ask(asset)).headers)[b"etag"].decode()
    assert etag.strip('"') == hashlib.sha256(asset.body).hexdigest()[:32]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await ask(asset, if_none_match=known)
        assert (answer.status, answer.body) == (304, b"")
        assert dict(answer.headers)[b"etag"].decode() == etag
    assert (await ask(asset, if_none_match='"other"')).status == 200


async def test_every_file_comes_under_the_policy_and_needs_nothing_it_forbids(assets: dict[str, Asset]) -> None:
    for path, asset in assets.items():
        assert dict((await ask(asset)).headers)[b"content-security-policy"] == POLICY
        text = "" if path.endswith(".webp") else asset.body.decode()
        assert "innerHTML" not in text, path
        if path.endswith((".html", ".css", ".js")) and not path.startswith("vendor/"):
            assert "http://" not in text, path
            assert "https://" not in text, path
    page = assets["index.html"].body.decode()
    assert "<style" not in page
    assert " style=" not in page
    assert all("src=" in tag for tag in page.split("<script")[1:])


@pytest.mark.parametrize(
    "path", ["/ui/../settings.py", "/ui/%2e%2e/pages.py", "/ui/vendor", "/ui//app.js", "/ui/pages.py"]
)
def test_a_path_that_is_no_file_of_the_table_is_no_route(path: str) -> None:
    routes = Routes()
    register(routes)
    assert routes.find("/ui/app.js") is not None
    assert routes.find(path) is None


async def test_the_short_address_leads_on_relatively() -> None:
    routes = Routes()
    register(routes)
    found = routes.find("/ui")
    assert found is not None
    answer = await found[0]["GET"].handler(Asked(), {})  # type: ignore[arg-type]
    assert answer is not None
    assert (answer.status, dict(answer.headers)[b"location"]) == (308, b"ui/")


@pytest.mark.parametrize("switched_on", [True, False])
async def test_the_setting_switches_the_page(switched_on: bool) -> None:
    from services.core.gate import Gate
    from services.core.http.routing import build_routes
    from services.core.journal import Journal
    from services.core.repository import Repository
    from services.core.serving import Serving
    from services.core.shadow import Shadow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BentoML's own, when its services are imported
        from services.forecast import ForecastFamily

    settings = Settings(ui=switched_on)
    repository = Repository([ForecastFamily()], settings)
    serving = Serving(repository, Gate(settings), Shadow(repository), Journal(settings), settings)
    assert (build_routes(serving).find("/ui/") is not None) is switched_on
