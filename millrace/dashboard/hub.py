"""The browsers that are connected, each with a short queue: one that does not keep up is dropped, never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sse_starlette import ServerSentEvent

QUEUED_MOST = 20
"""Ten seconds of ticks."""
BROWSERS_MOST = 100


@dataclass(eq=False)
class Browser:
    """One open page."""

    queue: asyncio.Queue[ServerSentEvent] = field(default_factory=lambda: asyncio.Queue(QUEUED_MOST))
    is_dropped: bool = False


class Hub:
    """Passes each event to all browsers."""

    def __init__(self) -> None:
        self.browsers: set[Browser] = set()
        self.dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Take events from now on, on behalf of the running loop."""
        self._loop = asyncio.get_running_loop()

    def publish(self, name: str, data: str) -> None:
        """Pass an event on, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.pass_on, name, data)

    def pass_on(self, name: str, data: str) -> None:
        """Pass an event on, in the loop."""
        event = ServerSentEvent(data=data, event=name)
        for browser in list(self.browsers):
            try:
                browser.queue.put_nowait(event)
            except asyncio.QueueFull:
                self.drop(browser)

    def drop(self, browser: Browser) -> None:
        """Forget a browser that does not read; its connection ends by its time limit."""
        browser.is_dropped = True
        self.browsers.discard(browser)
        self.dropped += 1

    def join(self) -> Browser | None:
        """A new browser; None when there are too many."""
        if len(self.browsers) >= BROWSERS_MOST:
            return None
        browser = Browser()
        self.browsers.add(browser)
        return browser

    def leave(self, browser: Browser) -> None:
        """Forget a browser that has gone."""
        self.browsers.discard(browser)

    async def events(self, browser: Browser, first: list[ServerSentEvent]) -> AsyncIterator[ServerSentEvent]:
        """What a browser gets, until it leaves or is dropped."""
        try:
            for event in first:
                yield event
            while not browser.is_dropped:
                yield await browser.queue.get()
        finally:
            self.leave(browser)
