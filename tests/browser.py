"""A real browser without a window: the Chromium of millrace/machine/npm/browser, driven by Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from playwright.sync_api import Page, expect, sync_playwright

from millrace.machine import npm
from millrace.settings import Settings

WITHIN_MS = 60_000


@contextmanager
def browser(width: int = 1440, height: int = 900) -> Iterator[Page]:
    """A page in a new browser with an empty profile, gone at the end."""
    place = npm.ensure(Settings.read(os.environ), "browser")
    node = {"PLAYWRIGHT_NODEJS_PATH": str(place / "node")}
    with patch.dict(os.environ, node), sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=place / "chromium",
            chromium_sandbox=False,  # it needs rights that root in a container does not have
            # What it needs is beside it: this machine's libraries and fonts play no part.
            env={**os.environ, "LD_LIBRARY_PATH": f"{place}/al2023/lib", "FONTCONFIG_FILE": f"{place}/fonts.conf"},
        )
        page = running.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(WITHIN_MS)
        expect.set_options(timeout=WITHIN_MS)
        yield page
        running.close()


def barriers(page: Page) -> list[str]:
    """What keeps people out of the page as it is now: the rules of WCAG 2.1 AA that axe finds broken, and where."""
    source = npm.ensure(Settings.read(os.environ), "browser") / "node_modules" / "axe-core" / "axe.min.js"
    page.evaluate(source.read_text(encoding="utf-8"))
    asked = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}
    found = page.evaluate("(asked) => axe.run(document, asked)", asked)
    assert found["passes"], "axe judged nothing"
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def shows(page: Page, text: str) -> None:
    """Wait until the page shows a text."""
    expect(page.locator("body")).to_contain_text(text, use_inner_text=True, timeout=WITHIN_MS)
