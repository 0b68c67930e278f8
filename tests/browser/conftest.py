"""A real browser: Debian's Chromium, or the one that Playwright installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, sync_playwright


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests here; skipped where there is none and none was installed.

    Not for the session: while it is there an event loop runs in this thread, and other tests want
    one of their own.
    """
    found = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            # In a container Chromium's own sandbox has no rights; the pages are ours.
            started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"no Chromium here (apt-get install chromium): {error}")
        yield started
        started.close()


@dataclass
class Opened:
    """A page, and all that it, and what it opened, said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def hosts(self) -> set[str]:
        """Where it asked for anything; a page from a file asks nobody."""
        asked = (urlsplit(url) for url in self.requests)
        return {url.netloc for url in asked if url.scheme not in ("file", "data", "blob", "about")}

    def widest(self) -> int:
        """How wide its content is, in CSS pixels."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


@contextmanager
def opening(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens pages until it is left."""
    with ExitStack() as stack:

        def open_one(url: str, *, width: int = 1440, dark: bool = False, **more: object) -> Opened:
            context = browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                **more,  # type: ignore[arg-type]
            )
            stack.callback(context.close)
            opened = Opened(context.new_page())

            def heard(message: ConsoleMessage) -> None:
                if message.type in ("error", "warning"):
                    opened.complaints.append(message.text)

            def asked(request: Request) -> None:
                opened.requests.append(request.url)

            # Of the context, so that what a page opens is heard as well.
            context.on("console", heard)
            context.on("weberror", lambda error: opened.complaints.append(str(error.error)))
            context.on("request", asked)
            opened.page.goto(url)
            return opened

        yield open_one


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens pages: ``open_page(url, width=390, dark=True)``."""
    with opening(browser) as open_one:
        yield open_one
