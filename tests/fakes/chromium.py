"""A headless Chromium, driven by `tests/browser/driver.mjs`: what a person at a page does, sees and waits for."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
AXE = HERE / "node_modules" / "axe-core"


def find_chromium() -> str | None:
    """Return the path of the browser, if this machine has one and what drives it is installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found if shutil.which("node") and AXE.exists() else None


class BrowserError(Exception):
    """What the browser could not do, in Playwright's words."""


@dataclass
class Chromium:
    """A browser under way."""

    process: subprocess.Popen[str]

    def open(self, *, dark: bool = False, narrow: bool = False, **options: Any) -> Page:
        """Open a page with cookies of its own, light and 1280 pixels wide unless told otherwise."""
        looks = {"colorScheme": "dark" if dark else "light", "viewport": NARROW if narrow else WIDE}
        return Page(self, self.order({"open": {**looks, "reducedMotion": "reduce", **options}}))

    def order(self, order: dict[str, Any]) -> Any:
        """Let it do something; raises `BrowserError` if it cannot."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, "the browser has ended"
        said = json.loads(line)
        if "error" in said:
            raise BrowserError(said["error"])
        return said["value"]


@dataclass
class Page:
    """A page of the browser. `where` is a selector of Playwright's, such as `role=button[name="Yes"]`."""

    browser: Chromium
    number: int

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of Playwright's page, or one of the driver's own."""
        return self.browser.order({"page": self.number, "call": method, "with": arguments})

    def go(self, address: str) -> None:
        """Open an address, and wait until all of it is loaded."""
        self.call("goto", address)

    def click(self, where: str) -> None:
        """Click on what is there, once it can be clicked."""
        self.call("click", where)

    def turn_to(self, view: str) -> None:
        """Open a view by its name in the navigation, and wait until it is there."""
        self.click(f"nav >> role=link[name=/^{view}/]")
        self.see(f'main >> role=heading[name="{view}"][level=1]')

    def write(self, where: str, text: str) -> None:
        """Type a text into an empty field."""
        self.call("fill", where, text)

    def press(self, *keys: str) -> None:
        """Press keys, one after another, wherever the focus is."""
        for key in keys:
            self.call("press", key)

    def see(self, where: str) -> str:
        """Wait until something is visible; its text."""
        return str(self.call("see", where))

    def miss(self, where: str) -> None:
        """Wait until something is gone."""
        self.call("waitForSelector", where, {"state": "hidden"})

    def has(self, where: str) -> bool:
        """Whether something is visible now."""
        return bool(self.call("isVisible", where))

    def wait(self, script: str) -> None:
        """Wait until an expression of JavaScript holds."""
        self.call("until", script)

    def look(self, script: str) -> Any:
        """Return the value of an expression of JavaScript, once it has one if it is a promise."""
        return self.call("look", script)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write a screenshot."""
        self.call("screenshot", {"path": str(file), "fullPage": whole})

    @property
    def problems(self) -> list[str]:
        """What the page complained of so far: errors, warnings, breaches of its policy, dialogs."""
        return list(self.call("problems"))

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Each request so far: `method`, `url`, `headers`, `body`."""
        return list(self.call("requests"))

    @property
    def barriers(self) -> list[str]:
        """What axe finds that keeps somebody from using the page as it is now."""
        return list(self.call("barriers"))

    @property
    def focus(self) -> str:
        """What has the focus: the name that is read aloud, or the text of it."""
        told = "(e => e.getAttribute('aria-label') || e.innerText || e.id || e.tagName)(document.activeElement)"
        return str(self.look(told)).strip()

    def close(self) -> None:
        self.call("close")


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Run a browser for as long as the block."""
    found = find_chromium()
    assert found is not None, "there is no Chromium here"
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            ["node", HERE / "driver.mjs", found, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            yield Chromium(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
