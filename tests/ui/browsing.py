"""The playground in a headless browser: open it, press things, read what is there and what is drawn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

Json = dict[str, Any]

SECONDS = 60.0
WIDTH, HEIGHT = 1180, 900
TABS = ("forecast", "detect", "text", "watermark", "records", "chat", "models")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)


@contextmanager
def open_browser(downloads: Path) -> Iterator[Playground]:
    """A browser that is closed in the end."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium is not None
    assert chromedriver is not None
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(chromedriver))
    try:
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads), "eventsEnabled": False}
        )
        yield Playground(driver, downloads)
    finally:
        driver.quit()


@dataclass
class Playground:
    """One browser. downloads: the folder it saves files to."""

    driver: webdriver.Chrome
    downloads: Path

    def open(self, url: str, *, width: int = WIDTH, scheme: str = "light") -> None:
        """Load a server's page anew and wait for its tabs, or for the form that asks for a key."""
        self.resize(width, HEIGHT)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.driver.get("about:blank")
        self.driver.get(url + "/ui/")
        self.until(lambda: self.all("[role=tab]") or self.all("#key-form:not([hidden])"), "the page has loaded")

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def command(self, name: str, **arguments: Any) -> Json:
        """A command of the DevTools protocol."""
        answer: Json = self.driver.execute_cdp_cmd(name, arguments)
        return answer

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def imported(self, module: str, expression: str, *arguments: Any) -> Any:
        """What an expression over `module`, one of the page's own, and `given`, the arguments, is."""
        text = (
            f"const given = [...arguments], done = given.pop();"
            f"import('/ui/{module}').then((module) => done({expression}), (fault) => done(String(fault)));"
        )
        return self.driver.execute_async_script(text, *arguments)

    def drawn(self, name: str) -> Any:
        """What a picture was made of."""
        return self.script("return window.pressroom.drawn[arguments[0]]", name)

    def until(self, condition: Any, what: str, seconds: float = SECONDS) -> Any:
        return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: condition(), what)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def tab(self, name: str) -> None:
        """Open a tab."""
        self.one(f"#tab-{name}").click()

    def labelled(self, label: str) -> WebElement:
        """The control with this label in the open tab."""
        [found] = [one for one in self.all("[role=tabpanel]:not([hidden]) label") if one.text == label]
        return self.one(f"#{found.get_attribute('for')}")

    def choose(self, label: str, value: str) -> None:
        Select(self.labelled(label)).select_by_value(value)

    def write(self, label: str, text: str) -> None:
        """Put text into a control as if it had been pasted."""
        self.script(
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))",
            self.labelled(label),
            text,
        )

    def press(self, text: str) -> None:
        """Press a button of the open tab."""
        [button] = [one for one in self.all("[role=tabpanel]:not([hidden]) button") if one.text == text]
        button.click()

    def answer(self, action: str, *, place: str = "") -> str:
        """Press a button that asks, wait for what comes of it, and return that as text."""
        self.press(action)
        shown = f"[role=tabpanel]:not([hidden]) {place} .outcome"
        self.until(lambda: self.all(f"{shown} .explanation, {shown} .problem"), f"{action}: an answer")
        self.until(lambda: not self.all(f"{shown}[aria-busy=true]"), f"{action}: the end of it")
        return self.one(shown).text

    def answered(self, name: str) -> None:
        """Press the open tab's first button and wait for everything that comes of it."""
        buttons = self.all(f"#panel-{name} button[type=submit]")
        if not buttons:
            self.until(lambda: self.all("#panel-models table"), "the model's description")
            return
        buttons[0].click()
        panel = f"#panel-{name}"
        benches = len(self.all(f"{panel} .bench"))
        self.until(
            lambda: self.all(f"{panel} .problem") or len(self.all(f"{panel} .explanation")) >= benches,
            f"an answer in {name}",
        )
        self.until(lambda: not self.all(f"{panel} [aria-busy=true]"), f"all of the answer in {name}")
        assert [one.text for one in self.all(f"{panel} .problem")] == []

    def requested(self) -> list[str]:
        """Addresses the page has asked for since this was called last."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def faults(self) -> list[Mapping[str, Any]]:
        """What the browser complained about since this was called last, refusals of the API aside."""
        return [
            entry
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and "the server responded with a status of" not in entry["message"]
        ]
