"""The start of many servers that is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.settings import Settings
from millrace.stack import startup


class InterruptedPool(ThreadPoolExecutor):
    """Ctrl-C comes while the second server is submitted, after its thread began."""

    def submit(self, act: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        submitted = super().submit(act, *given, **named)
        if given[0].name == "second":
            raise KeyboardInterrupt
        return submitted


def test_what_is_submitted_at_the_moment_of_the_interruption_is_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: Any = {name: SimpleNamespace(name=name, needs=()) for name in ("first", "second", "third")}
    run = startup.Startup(Settings.read({"MILLRACE_STATE": str(tmp_path)}), servers, lambda *_: None)

    def bring_up(self: startup.Startup, server: Any) -> None:
        self.begun[server.name] = server
        assert self.halt.wait(20)

    stopped: list[str] = []
    monkeypatch.setattr(startup, "ThreadPoolExecutor", InterruptedPool)
    monkeypatch.setattr(startup.Startup, "_bring_up", bring_up)
    monkeypatch.setattr(startup, "stop_all", lambda settings, recorded, *_: stopped.extend(recorded))
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert sorted(stopped) == ["first", "second"]
