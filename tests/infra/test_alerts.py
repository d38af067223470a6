"""Alerts are printed while traffic is sent, each as its rule's sentence."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

from millrace.cli.alerts import alert_line, alerts_shown
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import load
from millrace.settings import Settings
from millrace.target import Target
from pipelines.fraud import FRAUD

RULE = FRAUD.rule("above-previous-max")
ALERT = {
    **{"rule": RULE.name, "rule_version": RULE.version, "key": "anna", "subject": "anna", "at_ms": 60_000},
    "operands": {"amount_cents": "91200", "before_highest_cents": "5000"},
}


class Tail:
    """A topic in which three alerts come, and then nothing."""

    read = threading.Event()

    def __init__(self, *_: object) -> None: ...

    def follow(self) -> Iterator[Record | None]:
        for offset in range(3):
            yield Record("alerts", 0, offset, 1_084, b"anna", json.dumps(ALERT).encode())
        self.read.set()
        while True:
            time.sleep(0.01)
            yield None

    def close(self) -> None: ...


def test_alerts_are_printed_as_sentences_as_they_arrive_and_counted_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.stores.topics.Tail", Tail)
    printed = StringIO()
    with alerts_shown(Target.read(Settings.read({}), {}), load("flink"), Console(file=printed, width=200)):
        assert wait_until(Tail.read.is_set, within_s=10)
    lines = printed.getvalue().splitlines()
    assert lines[0] == (
        "above-previous-max   anna  1970-01-01 00:01:00.000: the amount (912.00) is greater than "
        "the largest amount of the customer's earlier events (50.00)"
    )
    assert lines[-1] == "3 alerts arrived while the traffic ran"


@pytest.mark.parametrize("value", [b"{", b"[]", b"5", b"\xff", b'{"rule": "spree"}', b'{"rule": [], "operands": 1}'])
def test_a_message_that_is_no_alert_is_printed_as_it_is(value: bytes) -> None:
    assert alert_line(value, {RULE.name: RULE}) == value.decode("utf-8", errors="replace")
