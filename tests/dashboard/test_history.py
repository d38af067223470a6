"""What the tables hold about a key, beside an alert."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.dashboard.history import History
from millrace.patterns import load
from millrace.settings import Settings
from millrace.target import Target
from millrace.testing import token
from millrace.verbs import show
from tests.dashboard.playback import without_tables


def target(port: int) -> Target:
    return Target(Settings.read(os.environ), {"HBASE_THRIFT_HOST": "127.0.0.1", "HBASE_THRIFT_PORT": str(port)})


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door.getsockname()[1]


def test_a_pattern_without_tables_has_none() -> None:
    history = History(target(1))
    assert history.of(without_tables(load("flink-spark")), "anna") == (None, "")
    assert history.of(load("flood-flink"), "7") == (None, "")


def test_an_hbase_that_is_away_is_named_at_once() -> None:
    rows, problem = History(target(1)).of(load("flink-spark"), "anna")
    assert rows is None
    assert problem.startswith("HBase does not answer: ")


def test_a_key_is_shown_with_its_cards_shortened(listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    card = token("anna")
    shortened = f"{card[:13]}…"

    def found(shown: str) -> dict[str, Any]:
        event = {"card": shown, "amount_cents": 100, "latest": [shown, [{"of": f"<{shown}>"}]]}
        return {"customer": "anna", "cards": [shown], "at_ms": {shown: 7}, "transactions": [event]}

    monkeypatch.setattr(show, "show_called", lambda *_: found(card))
    rows, problem = History(target(listener)).of(load("flink-spark"), "anna")
    assert (rows, problem) == (found(shortened), "")
