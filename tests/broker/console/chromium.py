"""A real Chromium, found on the PATH."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; a test without one fails."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail("no Chromium on the PATH; install one: apt-get install chromium (see tests/services/install.sh)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Watched:
    """A page of the console that notes everything that goes wrong in it.

    Args:
        context: Of the browser.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        context.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('CSP', e.violatedDirective, e.blockedURI))"
        )
        self.page: Page = context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", self._noted)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)

    def _failed(self, request: Request) -> None:
        # What is under way when the page is left is aborted.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def _noted(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def turn_to(self, name: str) -> None:
        """Follow a link of the navigation."""
        self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()

    def overflow(self) -> list[str]:
        """What reaches beyond the right edge of the window and makes the page scroll sideways."""
        result: list[str] = self.page.evaluate(
            """() => document.documentElement.scrollWidth <= innerWidth ? [] :
            [...document.querySelectorAll("body *")]
              .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
              .map((e) => `${e.tagName}.${e.className}`)"""
        )
        return result
