"""What pages change is told apart from what changes anyway."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lab.pages import compared, opened, outcome, quarters
from millrace.patterns import load
from millrace.settings import Settings
from tests.dashboard.playback import UP, pattern_around, served, without_tables


def test_what_changes_slowly_falls_on_both_alike() -> None:
    found = compared([[10, 20, 30, 40], [50, 60, 70, 80], [90, 100, 110, 120]])
    assert (found["change_ms"], found["noise_ms"]) == (0, 30)
    assert found["p99_ms"] == {"without": 65, "with": 65}


def test_what_pages_change_is_the_median_of_all_blocks() -> None:
    found = compared([[10, 30, 30, 10], [10, 30, 34, 14], [10, 900, 900, 12]])
    assert (found["change_ms"], found["noise_ms"]) == (20, 2)


def test_pages_that_cost_more_than_the_noise_or_need_more_and_more_memory_fail() -> None:
    flat, grown = quarters([50, 80, 100, 105]), quarters([50, 100, 100, 106])
    assert outcome("ok", {"change_ms": 4, "noise_ms": 5}, flat) == "ok"
    assert outcome("unknown", {"change_ms": 4, "noise_ms": 5}, flat) == "unknown"
    assert outcome("ok", {"change_ms": 5, "noise_ms": 5}, flat) == "failed"
    assert outcome("ok", {"change_ms": 4, "noise_ms": 5}, grown) == "failed"


@pytest.mark.builds
def test_open_pages_read_until_they_are_closed(tmp_path: Path) -> None:
    read = Settings.read(os.environ)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    variant = without_tables(load("flink"))
    around = {"kafka": UP, "patterns": {"flink": pattern_around("flink")}}
    with served(Settings(read.project, read.home, tmp_path, read.port_base), [variant], {"flink": []}, around, port):
        with opened(f"http://127.0.0.1:{port}/", 3) as read_kb:
            pass
        assert len(read_kb) == 3
        assert all(read_kb)
        with opened(f"http://127.0.0.1:{port}/", 0) as none:
            pass
        assert none == []
