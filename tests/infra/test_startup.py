"""The start of many servers that is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.errors import InfraError
from millrace.machine import processes
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


@pytest.mark.parametrize(
    ("is_alive", "problem"),
    [
        (True, "kafka-1 runs but was not ready within 0 s; `millrace restart kafka-1` ends it and starts it again"),
        (False, "kafka-1 died while its answer was awaited; `millrace up` starts it again"),
    ],
)
def test_a_server_that_ran_before_and_does_not_answer_is_named_with_its_remedy(
    is_alive: bool, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = SimpleNamespace(
        name="kafka-1",
        needs=(),
        within_s=0,
        is_ready=lambda since: False,
        log=tmp_path / "log",
        output=tmp_path / "out",
    )
    run = startup.Startup(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"kafka-1": server}, lambda *_: None)
    record: Any = SimpleNamespace(name="kafka-1", fingerprint="", since=0)
    run.recorded = {"kafka-1": record}
    alive = iter([True, is_alive])
    monkeypatch.setattr(processes, "alive", lambda each: next(alive, is_alive))
    monkeypatch.setattr(startup, "fingerprint", lambda each: "")
    with pytest.raises(InfraError) as raised:
        run.run()
    assert str(raised.value).startswith(problem)
