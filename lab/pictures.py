"""The pictures of the README: the live page in the middle of `millrace demo`, in light and in dark.

`python -m lab.pictures` runs the demo, whose servers must not run yet. If its verdict is ok, it leaves a record, which
has the commit, and writes `docs/pictures`.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Page, expect
from prometheus_client.parser import text_string_to_metric_families

from millrace import records
from millrace.errors import InfraError
from millrace.machine.processes import wait_until
from millrace.patterns import load
from millrace.servers.dashboard import url
from millrace.settings import Settings
from tests.browser import browser

PATTERN = "flink-spark"
FOLDER = Path("docs", "pictures")
SCHEMES = ("light", "dark")
WIDTH, HEIGHT = 1680, 1180
QUALITY = 80
BYTES_MOST = 200_000
ALERTS_LEAST = 200
WITHIN_S = 400


def main() -> None:
    """Take the pictures; exit code 1 if the demo fails."""
    settings, began = Settings.read(os.environ), time.monotonic()
    demo = subprocess.Popen([sys.executable, "-m", "millrace.cli", "demo", PATTERN])
    try:
        if not wait_until(lambda: demo.poll() is not None or _is_busy(settings), WITHIN_S, every_s=1):
            raise InfraError(f"the page at {url(settings)} showed no traffic for {WITHIN_S} s")
        taken_s = time.monotonic() - began
        with browser(WIDTH, HEIGHT) as page:
            pictures = {scheme: _taken(page, settings, scheme) for scheme in SCHEMES}
    finally:
        demo.wait()  # it stops its servers
    if demo.returncode == 0:
        keep(settings, pictures, taken_s)
    sys.exit(demo.returncode)


def keep(settings: Settings, pictures: Mapping[str, bytes], taken_s: float) -> None:
    """Write the record, then the pictures: they are changes, and a record names a commit without any."""
    sizes = {scheme: len(picture) for scheme, picture in pictures.items()}
    print(records.append(settings, "pictures", {"seconds": {"taken after": round(taken_s, 1)}, "bytes": sizes}))
    for scheme, picture in pictures.items():
        path = settings.project / FOLDER / f"live-{scheme}.webp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)


def _is_busy(settings: Settings) -> bool:
    """Whether something of each stage is on the page."""
    counted = _counted(settings)
    raw = [each.name for each in load(PATTERN).use.raw]
    return all(counted.get(each, 0) > 0 for each in (*raw, "accepted", "refused", "windows")) and (
        counted["alerts"] > ALERTS_LEAST
    )


def _counted(settings: Settings) -> Mapping[str, float]:
    """Messages by stream, and alerts, from `/metrics`."""
    try:
        with urllib.request.urlopen(f"{url(settings)}metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    found = {each.labels["stream"]: each.value for each in samples if each.name == "millrace_messages_total"}
    return found | {"alerts": sum(each.value for each in samples if each.name == "millrace_alerts_total")}


def _taken(page: Page, settings: Settings, scheme: str) -> bytes:
    """One picture."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{url(settings)}#/{PATTERN}")
    page.reload()
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("button.alert").first).to_be_visible()
    # As WebP, which Playwright does not offer: a third of a PNG.
    asked = {"format": "webp", "quality": QUALITY}
    picture = base64.b64decode(page.context.new_cdp_session(page).send("Page.captureScreenshot", asked)["data"])
    if len(picture) > BYTES_MOST:
        raise InfraError(f"the {scheme} picture has {len(picture)} bytes; lower QUALITY in {__file__}")
    return picture


if __name__ == "__main__":
    main()
