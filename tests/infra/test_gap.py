"""The longest time without output in an upgrade, from topics in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.patterns import load
from millrace.patterns import topics as topics_of
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import upgrade
from tests.pipelines.test_following import Tail, Topics

BEGAN_MS = 100_000


def test_the_gap_is_measured_without_reading_what_came_before_the_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, read, flink = Topics(), list[Record](), load("flink")

    class Watched(Tail):
        def new(self, cut_ms: float = float("inf")) -> Iterator[Record]:
            for record in super().new(cut_ms):
                read.append(record)
                yield record

    def came(kind: str, moments: Iterable[int]) -> None:
        kafka.records[topics_of(flink)[kind]] = [Record(kind, 0, n, at, b"", b"") for n, at in enumerate(moments)]

    def tail(_: str, kinds: Mapping[str, str], since: Any = None) -> Watched:
        return Watched(kafka, kinds, {})

    came(flink.use.judged.name, range(0, 120_000, 100))
    came(flink.use.enriched.name, (*range(0, 101_000, 100), *range(104_000, 120_000, 100)))
    monkeypatch.setattr(upgrade, "Tail", tail)
    target = Target.read(Settings.read({}), {})
    assert upgrade._gap_ms(target, flink, BEGAN_MS) == 104_000 - 100_900
    assert min(each.ingest_ms for each in read) == BEGAN_MS
