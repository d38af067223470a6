"""`millrace dashboard`: it serves the page in the foreground, unless the page is served already."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.cli.dashboard import dashboard
from millrace.dashboard import __main__ as page
from millrace.machine import processes
from millrace.settings import Settings

URL = "http://127.0.0.1:26060/"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """With which settings it has been served."""
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    monkeypatch.setenv("MILLRACE_PORT_BASE", "26000")
    found: list[Settings] = []
    monkeypatch.setattr(page, "serve", found.append)
    return found


def test_it_prints_its_address_and_serves(served: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    dashboard()
    assert capsys.readouterr().out == f"the live page: {URL}   Ctrl-C ends it\n"
    assert served == [Settings.read(os.environ)]


def test_a_page_that_is_served_already_is_named_until_it_has_ended(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Settings.read(os.environ).run
    other = processes.start("dashboard", ["sleep", "60"], {"PATH": os.environ["PATH"]}, tmp_path / "log", run)
    try:
        dashboard()
    finally:
        processes.stop(other, within_s=5)
    assert capsys.readouterr().out == f"the live page is served already (pid {other.pid}): {URL}\n"
    assert served == []
    dashboard()
    assert len(served) == 1
