"""What `validate` reads while it waits: a message that names no raw one counts for none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.oracle import Record
from millrace.patterns import load
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import validation
from millrace.verbs.traffic import Counted, arrivals
from millrace.verify import judge

PATTERN = "storm"
DEEP = "[" * 100_000
VALUES = (
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9" * 5_000,
    '"9"',
    '"x"',
    "null",
    "true",
    "[]",
    "{}",
    DEEP,
    '"\\ud800"',
)


class Messages:
    """What the topics of a pattern hold."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.positions: dict[str, dict[int, int]] = {}

    def new(self) -> Iterator[Record]:
        yield from self.records
        self.records = []

    def deleted(self) -> set[str]:
        return set()

    def close(self) -> None:
        pass


def outputs() -> Iterator[Record]:
    """Enriched events and dead letters with other values in the fields that name the raw message."""
    variant = load(PATTERN)
    offset = 0
    for kind, prefix in ((variant.use.enriched.name, "source_"), ("dead-letters", "")):
        place = {f"{prefix}topic": variant.topic("transactions"), f"{prefix}partition": 0, f"{prefix}offset": 7}
        texts = [
            "",
            "{",
            "[]",
            "7",
            DEEP,
            *(json.dumps({n: v for n, v in place.items() if n != name}) for name in place),
        ]
        for name in place:
            texts += [json.dumps({**place, name: "@"}).replace('"@"', value) for value in VALUES]
        for text in texts:
            yield Record(kind, 0, offset, 1, None, text.encode("utf-8", "surrogatepass"))
            offset += 1
    for value in VALUES:
        yield Record("hop", 0, offset, 1, None, f'{{"sent_ms": {value}}}'.encode())
        offset += 1


def test_any_message_is_read_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "Tail", lambda *_: Messages(list(outputs())))
    variant = load(PATTERN)
    target = Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"KAFKA_BOOTSTRAP": "nowhere"})
    reading = validation._Reading(target, variant)
    reading.read()
    assert reading.is_whole(), "no raw message waits"
    question = validation.question_about(variant, validation.bounds_of(variant), {})
    verdict = judge(question, reading.evidence(Counted()))
    assert verdict.check("readable").status == "failed"


def test_an_alert_that_was_heard_since_the_topics_were_read_counts_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "Tail", lambda *_: Messages([]))
    variant, settings = load(PATTERN), Settings.read({"MILLRACE_STATE": str(tmp_path)})
    reading = validation._Reading(Target(settings, {"KAFKA_BOOTSTRAP": "nowhere"}), variant)
    reading.read()
    path, now_ms = arrivals(settings, PATTERN), time.time() * 1000
    path.parent.mkdir(parents=True)
    heard = {"before": now_ms - 60_000, "since": now_ms + 60_000}
    lines = [{"kind": "alerts", "received_ms": ms, "sent_ms": 1, "alert_id": name} for name, ms in heard.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [*(reading.evidence(Counted()).received_ms or {})] == ["before"]
