"""The page of the playground: keys, narrow screens, names, contrast, the keyboard alone, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browsing import TABS, Playground
from live_server import PRESSROOM, LiveServer, StartServer
from selenium.webdriver import ActionChains, Keys

from services.core.auth import hash_secret

pytestmark = pytest.mark.needs("chromium")


def test_a_server_with_keys_asks_for_one_and_keeps_it_in_this_tab(
    browser: Playground, pressed_home: Path, start_server: StartServer, tmp_path: Path
) -> None:
    entry = '[[keys]]\nid = "{}"\nsha256 = "{}"\nscopes = ["infer"]\n'
    (tmp_path / "keys.toml").write_text(entry.format("somebody", hash_secret("a secret of somebody")))
    keys = {"PRESSROOM_KEYS_FILE": str(tmp_path / "keys.toml")}
    server = start_server(environment=keys, command=(PRESSROOM, "serve", "forecast"))
    browser.open(server.url)
    assert "no API key was sent" in browser.one("#notice").text
    secret, use = browser.one("#key-form input"), browser.one("#key-form button")
    secret.send_keys("wrong")
    use.click()
    browser.until(lambda: "not known" in browser.one("#notice").text, "a wrong key is refused")
    secret.clear()
    secret.send_keys("a secret of somebody")
    use.click()
    browser.until(lambda: browser.all("[role=tab]"), "the tabs")
    assert [one.text for one in browser.all("[role=tab]")] == ["Forecast", "Models"]  # of the one family served
    browser.answer("Forecast")
    command = browser.script("return document.querySelector('.curl').textContent")
    assert "Authorization: Bearer $PRESSROOM_API_KEY" in command
    assert "a secret of somebody" not in command
    browser.tab("models")
    browser.until(
        lambda: "does not have the scope 'metrics'" in browser.one("#panel-models").text, "why there are no metrics"
    )
    kept = "return [document.cookie, localStorage.length, Object.keys(sessionStorage)]"
    assert browser.script(kept) == ["", 0, ["pressroom.key"]]
    secret.clear()
    use.click()
    browser.until(lambda: "no API key was sent" in browser.one("#notice").text, "the key is forgotten")
    assert browser.script("return sessionStorage.length") == 0


def answered_tabs(page: Playground) -> Iterator[str]:
    """Each tab in turn, with an answer in it."""
    for name in TABS:
        page.tab(name)
        page.answered(name)
        yield name


def test_nothing_is_wider_than_a_phone(browser: Playground, every_server: LiveServer) -> None:
    browser.open(every_server.url, width=360, scheme="dark")
    for name in answered_tabs(browser):
        for summary in browser.all(f"#panel-{name} summary"):
            browser.script("arguments[0].parentElement.open = true", summary)
        width = browser.script("return Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
        assert width <= 360, name
        low = [b.text for b in browser.all(f"#panel-{name} button") if b.is_displayed() and b.size["height"] < 34]
        assert low == [], name


def test_every_control_has_a_name_and_every_picture_words(page: Playground) -> None:
    named = {"textbox", "combobox", "spinbutton", "checkbox", "button", "tab"}
    named |= {"img", "image", "Date", "InputTime", "log", "region"}
    for name in answered_tabs(page):
        tree = page.command("Accessibility.getFullAXTree")["nodes"]
        shown = [one for one in tree if not one["ignored"] and one["role"]["value"] in named]
        assert len(shown) > 5
        assert [one for one in shown if not one.get("name", {}).get("value")] == [], name
        ids = page.script("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids)), name
    assert page.all("[role=tab][aria-selected=true]")[0].get_attribute("aria-controls") == "panel-models"
    levels = [int(one.tag_name[1]) for one in page.all("h1, h2, h3")]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_keyboard_alone_is_enough(page: Playground) -> None:
    def keys(*sent: str) -> None:
        ActionChains(page.driver).send_keys(*sent).perform()

    def focused() -> Any:
        return page.driver.switch_to.active_element

    def tab_to(wanted: Callable[[], bool], most: int = 40) -> None:
        for _ in range(most):
            keys(Keys.TAB)
            outline = page.script("return getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"no ring around {focused().get_attribute('outerHTML')[:80]}"
            if wanted():
                return
        raise AssertionError("the Tab key never comes there")

    tab_to(lambda: focused().get_attribute("class") == "skip", most=1)
    tab_to(lambda: focused().get_attribute("role") == "tab")
    keys(Keys.END)
    assert focused().text == "Models"
    keys(Keys.ARROW_RIGHT)
    assert focused().text == "Forecast"
    keys(Keys.ARROW_LEFT, Keys.HOME)
    assert page.one("#panel-forecast").is_displayed()
    tab_to(lambda: focused().get_attribute("role") == "tabpanel", most=1)
    tab_to(lambda: focused().get_attribute("inputmode") == "numeric")
    keys(Keys.CONTROL, "a", Keys.NULL, "24")
    tab_to(lambda: focused().text == "Forecast")
    keys(Keys.ENTER)
    page.until(lambda: page.all(".explanation"), "the answer")
    assert len(page.drawn("forecast")["lines"][1]["values"]) == 96 + 24
    assert page.one(".status").get_attribute("aria-live") == "polite"
    tab_to(lambda: focused().tag_name == "summary")
    keys(Keys.ENTER)
    assert page.one(".curl").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser: Playground, every_server: LiveServer, scheme: str) -> None:
    browser.open(every_server.url, scheme=scheme)
    text = """
        const style = getComputedStyle(document.documentElement);
        return arguments[0].map((name) => style.getPropertyValue("--" + name).trim());
    """
    pairs = [
        (front, back) for front in ("ink", "muted", "accent", "bad", "good") for back in ("paper", "sheet", "wash")
    ]
    for front, back in [*pairs, ("on-accent", "accent")]:
        assert contrast(*browser.script(text, [front, back])) >= 4.5, (front, back)


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours written #rrggbb."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_nothing_leaves_the_origin_and_the_browser_has_no_complaint(page: Playground, every_server: LiveServer) -> None:
    page.requested()
    page.faults()
    page.open(every_server.url)
    for _ in answered_tabs(page):
        pass
    asked = [one for one in page.requested() if not one.startswith(("blob:", "data:", "about:"))]
    assert len(asked) > 30
    assert [one for one in asked if not one.startswith(every_server.url + "/")] == []
    assert page.faults() == []
