"""The browsers that are connected: each gets every event, and one that does not read is dropped."""

from __future__ import annotations

import asyncio

from sse_starlette import ServerSentEvent

from millrace.dashboard import hub as hubs
from millrace.dashboard.hub import Hub


def test_each_browser_gets_what_comes_after_its_first_events() -> None:
    async def run() -> list[list[str]]:
        hub = Hub()
        browsers = [hub.join(), hub.join()]
        hub.pass_on("tick", "1")
        hub.pass_on("tick", "2")
        found = []
        for browser in browsers:
            assert browser is not None
            events = hub.events(browser, [ServerSentEvent(data="full", event="full")])
            found.append([str((await anext(events)).data) for _ in range(3)])
            await events.aclose()
        assert hub.browsers == set()
        return found

    assert asyncio.run(run()) == [["full", "1", "2"]] * 2


def test_a_browser_that_does_not_read_is_dropped_and_others_stay() -> None:
    async def run() -> None:
        hub = Hub()
        silent, reading = hub.join(), hub.join()
        assert silent is not None
        assert reading is not None
        for number in range(hubs.QUEUED_MOST + 1):
            hub.pass_on("tick", str(number))
            await reading.queue.get()
        assert (silent.is_dropped, hub.dropped, hub.browsers) == (True, 1, {reading})

    asyncio.run(run())


def test_too_many_browsers_are_refused() -> None:
    hub = Hub()
    assert all(hub.join() for _ in range(hubs.BROWSERS_MOST))
    assert hub.join() is None


def test_events_pass_from_another_thread() -> None:
    async def run() -> str:
        hub = Hub()
        hub.publish("tick", "before the loop runs it is lost")
        hub.open()
        browser = hub.join()
        assert browser is not None
        await asyncio.to_thread(hub.publish, "tick", "1")
        return str((await asyncio.wait_for(browser.queue.get(), 5)).data)

    assert asyncio.run(run()) == "1"
