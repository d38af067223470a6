"""A real browser without a window, driven by the W3C WebDriver protocol: Debian's chromium and chromium-driver."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Without the last five chromium asks the network for things of its own.
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    "--disable-dev-shm-usage",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window."""

    def __init__(self, driver: str, session: str) -> None:
        self._session = f"{driver}/session/{session}"

    def open(self, url: str) -> None:
        self._say("POST", "/url", {"url": url})

    def text(self) -> str:
        """All text that the page shows."""
        return str(self.run("return document.body ? document.body.innerText : ''"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self._say("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def type(self, selector: str, text: str) -> None:
        self._say("POST", f"/element/{self._element(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        self._say("POST", f"/element/{self._element(selector)}/click", {})

    def enter(self, frame_selector: str) -> None:
        """Go into a frame."""
        self._say("POST", "/frame", {"id": {ELEMENT: self._element(frame_selector)}})

    def leave(self) -> None:
        """Go back to the whole page."""
        self._say("POST", "/frame", {"id": None})

    def wait_for(self, is_so: str | Callable[[], bool], within_s: float = 60) -> None:
        """Wait until the page shows a text, or something else is so."""
        seen = (lambda: is_so in self.text()) if isinstance(is_so, str) else is_so
        deadline = time.monotonic() + within_s
        while not seen():
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"the page did not come to show {is_so!r} within {within_s} s:\n{self.text()[:2000]}"
                )
            time.sleep(0.2)

    def screenshot(self, path: Path) -> Path:
        """Keep what is seen as a picture."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._say("GET", "/screenshot")))
        return path

    def problems(self) -> list[str]:
        """What the page complained of in the console."""
        logged = self._say("POST", "/se/log", {"type": "browser"})
        return [each["message"] for each in logged if each["level"] == "SEVERE"]

    def _element(self, selector: str) -> str:
        return str(self._say("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT])

    def _say(self, method: str, path: str, body: Any = None) -> Any:
        return _say(method, f"{self._session}{path}", body)


@contextmanager
def browser(width: int = 1440, height: int = 900) -> Iterator[Browser]:
    """A new browser with an empty profile, gone at the end."""
    program, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if not program or not chromium:
        pytest.fail("no chromium and chromedriver; `apt-get install chromium chromium-driver`")
    with tempfile.TemporaryDirectory() as profile, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        driver = subprocess.Popen([program, f"--port={port}", "--log-level=SEVERE"], stdout=subprocess.DEVNULL)
        address = f"http://127.0.0.1:{port}"
        try:
            _await_ready(address)
            arguments = [*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}"]
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": {"binary": chromium, "args": arguments},
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            session = _say("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            try:
                yield Browser(address, session)
            finally:
                _say("DELETE", f"{address}/session/{session}")
        finally:
            driver.terminate()
            driver.wait(20)


def _await_ready(address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if _say("GET", f"{address}/status")["ready"]:
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise AssertionError("chromedriver does not answer")
        time.sleep(0.1)


def _say(method: str, url: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        url, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        said = json.load(error)["value"]
        raise AssertionError(f"{method} {url}: {said['error']}: {said['message'].splitlines()[0]}") from None
