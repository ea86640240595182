"""Headless Chromium on a running Superset: what a user does, in words."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1600,2400",
]  # fmt: skip
PATIENCE = 90.0
FAILED = "dpsql Error"  # above the line of a refusal
DRAWN = "canvas, table tbody tr, .header-line"
API = """
const [method, path, body, done] = arguments;
(async () => {
  const token = (await (await fetch('/api/v1/security/csrf_token/')).json()).result;
  const headers = {'Content-Type': 'application/json', 'X-CSRFToken': token};
  done(await (await fetch(path, {method, headers, body})).text());
})();
"""


class Browser:
    """One window, logged in or not. Every picture is kept in `pictures`."""

    def __init__(self, address: str, profile: Path, pictures: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        self._driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self._driver.set_script_timeout(PATIENCE)
        self._address = address
        self._pictures = pictures
        pictures.mkdir(parents=True, exist_ok=True)

    def quit(self) -> None:
        self._driver.quit()

    def open(self, path: str) -> None:
        self._driver.get(self._address + path)

    def until(self, found: Callable[[], Any]) -> Any:
        return WebDriverWait(self._driver, PATIENCE).until(lambda _: found())

    def all(self, css: str) -> list[WebElement]:
        return self._driver.find_elements(By.CSS_SELECTOR, css)

    def first(self, css: str) -> WebElement:
        return self.until(lambda: next((e for e in self.all(css) if e.is_displayed()), None))

    def named(self, words: str) -> WebElement:
        """The elements with exactly these words."""
        path = f"//*[normalize-space(text())='{words}']"
        return self.until(
            lambda: next((e for e in self._driver.find_elements(By.XPATH, path) if e.is_displayed()), None)
        )

    def picture(self, name: str) -> None:
        time.sleep(1)  # charts move into place
        number = len(list(self._pictures.iterdir())) + 1
        self._driver.save_screenshot(str(self._pictures / f"{number:02} {name}.png"))

    def api(self, method: str, path: str, body: object = None) -> Any:
        """A request of the user who is logged in."""
        text = None if body is None else json.dumps(body)
        return json.loads(self._driver.execute_async_script(API, method, path, text))

    # --- Superset -----------------------------------------------------------------------------------------------------

    def log_in(self, name: str, password: str) -> None:
        self.open("/login/")
        self.until(lambda: self._is_in(name, password))

    def _is_in(self, name: str, password: str) -> bool:
        """Fill in the form; a page that was not ready forgets what was typed, and is asked again."""
        self.first("#username").send_keys(name)
        self.first("#password").send_keys(f"{password}\n")
        for _ in range(10):
            time.sleep(0.5)
            if "/login" not in self._driver.current_url:
                return True
        self._driver.refresh()
        return False

    def charts(self) -> list[WebElement]:
        return self.all("[data-test=chart-container]")

    def errors(self) -> list[str]:
        """The texts of the panels of errors on the page."""
        return [panel.text for panel in self.all("[role=alert]") if panel.text]

    def drawn(self, charts: int) -> bool:
        """Tell whether so many charts are on the page, each with something in it and none still loading."""
        found = self.charts()
        loading = self.all(".loading, [data-test=loading-indicator]")
        return len(found) == charts and not loading and all(c.find_elements(By.CSS_SELECTOR, DRAWN) for c in found)

    def choose_filter(self, value: str) -> None:
        """The first filter box of a dashboard, set to one value."""
        self.first("[data-test=filter-bar] .ant-select").click()
        self.until(lambda: [o for o in self.all(".ant-select-item-option") if o.text == value])[0].click()
        self.first("[data-test=filter-bar__apply-button]:not([disabled])").click()

    def clear_filters(self) -> None:
        self.first("[data-test=filter-bar__clear-button]").click()

    def ask(self, sql: str, database: int = 1) -> tuple[list[str], list[str]]:
        """Run a statement in SQL Lab: the words of its result and of its error, in lines."""
        self.open(f"/sqllab/?dbid={database}&sql={quote(sql)}")
        tab = ".ant-tabs-tabpane-active"
        # until the new tab is there the last one is shown, with what it was answered
        self.until(lambda: self._seen(f"{tab} .ace_editor", "e.env && e.env.editor.getValue()") == [sql])
        self.first(f"{tab} [data-test=run-query-action]:not([disabled])").click()
        # other panels come and go, such as that the list of tables is not loaded
        self.until(lambda: self._seen(f"{tab} [role=gridcell]") or self._refusal(tab))
        return self._seen(f"{tab} [role=gridcell]"), self._refusal(tab)

    def _refusal(self, within: str) -> list[str]:
        """The lines of the panel with an error of dpsql."""
        panels = [panel.splitlines() for panel in self._seen(f"{within} [role=alert]")]
        return next((lines for lines in panels if FAILED in lines), [])

    def _seen(self, css: str, what: str = "e.innerText") -> list[Any]:
        """Something of all such elements, at one moment."""
        found = f"return [...document.querySelectorAll(arguments[0])].map(e => {what})"
        return list(self._driver.execute_script(found, css))

    def samples(self, chart: int) -> str:
        """The rows of the Samples tab of a chart."""
        self.open(f"/explore/?slice_id={chart}")
        self.named("Samples").click()
        return str(self.until(lambda: next((e.text for e in self.all("pre") if e.text), None)))
