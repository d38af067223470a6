"""Tables follow from their declaration, also for a use that the library has never seen; fraud's stay as they were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import happybase
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import oracle
from millrace.engines.spark.hbase import Writer
from millrace.oracle import Record
from millrace.patterns import Stores
from millrace.rules import (
    ALERTS,
    Count,
    DistinctOthers,
    Enrichment,
    EventRule,
    EventType,
    Last,
    Max,
    Min,
    Real,
    RuleError,
    Sum,
    Table,
    Text,
    UseCase,
    Whole,
    newest_first,
)
from millrace.rules.layout import (
    NOTHING_FORGOTTEN,
    Forgotten,
    Mark,
    deletes,
    families,
    mark_put,
    puts,
    row_of,
    search,
    value_of,
    version,
)
from millrace.verify import Evidence, Question, Verdict, Versions, judge
from pipelines.fraud import FRAUD
from tests.pipelines.pretend import key_of

PINNED = json.loads(Path(__file__).with_name("pinned_tables.json").read_text())
START_MS = 1_790_000_000_000

doors = EventType(
    "doors",
    "A door and the lock that was last mounted.",
    (Text("badge"), Text("lock"), Whole("at_ms", least=0)),
    key="badge",
    time="at_ms",
    past_ms=10**9,
)
passages = EventType(
    "passages",
    "A badge at a door.",
    (
        Text("badge", pattern=".+"),
        Text("door"),
        Text("visit"),
        Whole("weight_kg", least=0, most=300, required=False),
        Real("celsius", -50, 60),
        Whole("at_ms", least=0),
    ),
    key="badge",
    id="visit",
    time="at_ms",
    past_ms=10**9,
    future_ms=10**9,
)
LOCK = Last(doors, "at_ms")
adding = Enrichment(on=passages, lookups=(), remembers={"lock": LOCK}, adds={"lock_at_ms": lambda n, b: b.lock.at_ms})
enriched = adding.enriched("enriched", "Every accepted passage.")
heavy = EventRule("heavy", "More than 100 kg.", passages, alert_when=lambda now, before: now.weight_kg > 100)
by_visit = Table("visits", key=("badge", newest_first("at_ms"), "visit"), columns=("door", "weight_kg", "celsius"))
by_door = Table("door-log", key=("door", "source_partition", "source_offset"), columns="all", retention_hours=2)
badges = Table(
    "badges",
    key="badge",
    state={"heaviest_kg": Max("weight_kg"), "first_ms": Min("at_ms"), "door": Last("door"), "lock": LOCK},
    alerts=True,
    called="badge",
)
per_door = Table("per-door", key="door", state={"lightest_kg": Min("weight_kg")})
GATES = UseCase(
    name="gates",
    judged=passages,
    others=(doors,),
    references=(),
    enrichment=adding,
    enriched=enriched,
    rules=(heavy,),
    summaries=(),
    tables=(by_visit, by_door, badges, per_door),
)
STORES = Stores("hdfs://nowhere", "nowhere", 0, "p")


def test_fraud_writes_the_rows_cells_and_timestamps_of_before() -> None:
    alerts = [alert | {"ingest_ms": START_MS} for alert in PINNED["alerts"]]
    found = [
        {
            "table": put.table,
            "row": put.row.decode(),
            "timestamp": put.timestamp,
            "cells": {column.decode(): cell.decode() for column, cell in put.cells.items()},
        }
        for put in puts(FRAUD, PINNED["events"], alerts, NOTHING_FORGOTTEN)
    ]
    assert sorted(found, key=json.dumps) == sorted(PINNED["puts"], key=json.dumps)
    one = {"max_versions": 1}
    assert [families(table) for table in FRAUD.tables] == [{"t": one}, {"s": one, "a": one}]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (Table, "give either columns"),
        (lambda **given: Table(columns="all", alerts=True, **given), "give either columns"),
        (lambda **given: Table(state={"n": Count()}, **given), "no Count: a batch that is written again"),
        (lambda **given: Table(state={"kg": Sum("weight_kg")}, **given), "no Sum: .* would be added twice"),
        (lambda **given: Table(state={"n": DistinctOthers("door", 9)}, **given), "no DistinctOthers: it needs every"),
        (lambda **given: Table(state={"kg": Max("weight")}, **given), "'enriched' has no field 'weight'; did you mean"),
        (lambda **given: Table(state={"c": Max("celsius")}, **given), "'celsius' is not a whole number"),
        (lambda **given: Table(state={"o": Max("source_offset")}, **given), r"must be from 0 to less than 2\*\*54"),
        (lambda **given: Table(state={"door": Last(doors, "lock")}, **given), "has no field 'door_lock'"),
        (
            lambda **given: Table(alerts=True, retention_hours=10**9, **given),
            "retention_hours must be a whole number from",
        ),
        (lambda **given: Table(state={"kg": Max("weight_kg")}, retention_hours=1, **given), "no retention with state"),
        (lambda **given: Table(columns="all", **given), "could share a row; its key needs 'badge' and 'visit', or"),
        (lambda **given: Table(columns=("door",), shows=("visit",), **given), "shows 'visit', which is none"),
        (lambda **given: Table(alerts=True, **given | {"key": "visit"}), "'visit' has no alerts"),
        (lambda **given: Table(alerts=True, **given | {"key": ("badge", "door")}), "has one field as its key"),
        (lambda **given: Table(state={"door": Last("visit")}, **given | {"key": "door"}), "only the events of one"),
        (lambda **given: Table(alerts=True, **given | {"key": "celsius"}), "neither a text nor a whole number"),
        (lambda **given: Table(alerts=True, **given | {"key": "weight_kg"}), "in a row key: it is optional"),
        (lambda **given: Table(alerts=True, **given | {"key": (newest_first("at_ms"),)}), "begins with newest_first"),
        (lambda **given: Table(alerts=True, called="A B", **given), "called 'A B': it is a word"),
        (lambda **given: Table(alerts=True, called="roll-back", **given), "`millrace roll-back` is a verb of its own"),
        (lambda **given: Table(alerts=True, **given | {"name": "A"}), "its name must be of small letters"),
        (lambda **given: Table(alerts=True, **given | {"name": "forgotten"}), "marks forgotten keys; give it another"),
        (lambda **given: Table(alerts=True, **given | {"name": "badges"}), "2 tables have the name 'badges'"),
    ],
)
def test_a_table_that_cannot_be_kept_is_refused_with_the_reason(table: Any, complaint: str) -> None:
    with pytest.raises(RuleError, match=complaint):
        replace(GATES, tables=(*GATES.tables, table(**{"name": "other", "key": "badge"})))


def test_row_keys_and_cells_follow_from_the_declaration() -> None:
    event = passage("b|1%", "v1", at_ms=START_MS, weight_kg=7, door="east", offset=3)
    written = {put.table: put for put in puts(GATES, [event], [], NOTHING_FORGOTTEN)[:2]}
    assert written["visits"].row == b"b%7C1%25|9223370246854775807|v1"
    assert written["visits"].cells == {b"t:door": b"east", b"t:weight_kg": b"7", b"t:celsius": b"20.5"}
    assert written["door-log"].row == b"east|0000000000000000000|0000000000000000003"
    shown = row_of(by_visit, GATES, written["visits"].row, written["visits"].cells)
    assert shown == {
        **{"badge": "b|1%", "at_ms": START_MS, "visit": "v1"},
        **{"door": "east", "weight_kg": 7, "celsius": 20.5},
    }
    assert row_of(by_door, GATES, written["door-log"].row, written["door-log"].cells) == event
    assert families(by_door) == {"t": {"max_versions": 1, "time_to_live": 7200}}


@pytest.mark.parametrize("gone", ["door", "weight_kg"])
def test_rows_from_before_a_field_was_removed_are_shown_without_it(gone: str) -> None:
    event = passage("b", "v1", at_ms=START_MS, weight_kg=7, door="east", offset=3)
    written = {put.table: put for put in puts(GATES, [event], [], NOTHING_FORGOTTEN)[:2]}
    columns = tuple(name for name in by_visit.columns if name != gone)
    fields = tuple(each for each in enriched.fields if each.name != gone)
    without: Any = SimpleNamespace(enriched=replace(enriched, fields=fields))
    shown = row_of(replace(by_visit, columns=columns), without, written["visits"].row, written["visits"].cells)
    assert shown == {
        **{"badge": "b", "at_ms": START_MS, "visit": "v1"},
        **{name: event[name] for name in columns},
    }


def test_a_declaration_that_writes_otherwise_has_another_version() -> None:
    others = (
        replace(badges, alerts=False),
        replace(badges, state={"heaviest_kg": Max("weight_kg")}),
        replace(badges, key="door"),
    )
    assert len({version(each, GATES) for each in (badges, *others)}) == 4
    assert version(replace(badges, called="someone"), GATES) == version(badges, GATES)


class Hbase:
    """Cells as HBase keeps them: the largest timestamp wins, and a deletion hides what is not above it, also later."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, bytes, bytes], dict[int, bytes]] = {}
        self.hidden: dict[tuple[str, bytes, bytes], int] = {}
        self.now = 0
        self.when_put: Any = None

    def table(self, name: str) -> Any:
        hbase = self

        class Of:
            def batch(self, timestamp: int | None = None, batch_size: int | None = None) -> Any:
                hbase.now += 1
                return Batch(hbase, name, hbase.now if timestamp is None else timestamp)

            def scan(self) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
                yield from hbase.rows(name).items()

        return Of()

    def tables(self) -> list[bytes]:
        return [b"p.forgotten"]

    def close(self) -> None: ...

    def rows(self, table: str) -> dict[bytes, dict[bytes, bytes]]:
        found: dict[bytes, dict[bytes, bytes]] = {}
        for (own, row, column), versions in self.cells.items():
            hidden = max(self.hidden.get((own, row, part), -1) for part in (column, column.partition(b":")[0]))
            shown = {at: value for at, value in versions.items() if at > hidden}
            if own == table and shown:
                found.setdefault(row, {})[column] = shown[max(shown)]
        return found


class Batch:
    def __init__(self, hbase: Hbase, table: str, timestamp: int) -> None:
        self.hbase, self.table, self.timestamp = hbase, table, timestamp

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None: ...

    def put(self, row: bytes, cells: Mapping[bytes, bytes]) -> None:
        if self.hbase.when_put is not None:
            happens, self.hbase.when_put = self.hbase.when_put, None
            happens()
        for column, value in cells.items():
            self.hbase.cells.setdefault((self.table, row, column), {})[self.timestamp] = value

    def delete(self, row: bytes, columns: Sequence[bytes]) -> None:
        for column in columns:
            place = (self.table, row, column)
            self.hbase.hidden[place] = max(self.timestamp, self.hbase.hidden.get(place, -1))


@pytest.fixture
def hbase(monkeypatch: pytest.MonkeyPatch) -> Hbase:
    made = Hbase()
    monkeypatch.setattr(happybase, "Connection", lambda *_, **__: made)
    return made


def forget(hbase: Hbase, badge: str, until_ms: int) -> None:
    """What the verb does, on the cells."""
    before = Forgotten.read(hbase.rows("p.forgotten").items()).of("badge", badge)
    mark = Mark(until_ms, before.times + 1)
    row, cells = mark_put("badge", badge, mark)
    with hbase.table("p.forgotten").batch() as batch:
        batch.put(row, cells)
    for table in GATES.tables[:3]:
        _, is_of_key = search(table, "badge", badge)
        for row, found in hbase.rows(f"p.{table.name}").items():
            if is_of_key(row, found) and (table is by_door or row.startswith(badge.encode())):
                for each in deletes(table, row, found, before, mark):
                    with hbase.table(f"p.{each.table}").batch(each.timestamp) as batch:
                        batch.delete(each.row, each.columns)


def passage(
    badge: str,
    visit: str,
    at_ms: int,
    *,
    weight_kg: int | None = None,
    door: str = "d",
    offset: int = 0,
    lock_at_ms: int | None = None,
    arrived_ms: int | None = None,
) -> dict[str, Any]:
    return {
        **{"badge": badge, "door": door, "visit": visit, "weight_kg": weight_kg, "celsius": 20.5, "at_ms": at_ms},
        "sent_ms": None,
        **{"lock_at_ms": lock_at_ms, "flags": [], "source_topic": "p.passages", "source_partition": 0},
        **{"source_offset": offset, "ingest_ms": at_ms if arrived_ms is None else arrived_ms},
    }


def alert_on(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{"alert_id": f"{event['source_offset']:032x}", "rule": "heavy", "key": event["badge"]},
        **{ALERTS.key: event["badge"], "at_ms": event["at_ms"], "ingest_ms": event["ingest_ms"]},
    }


visits = st.lists(
    st.builds(
        lambda weight_kg, badge, minute, lock: (weight_kg, badge, minute, lock),
        st.none() | st.integers(0, 300),
        st.sampled_from("ab"),
        st.integers(0, 9),
        st.none() | st.integers(0, 5),
    ),
    min_size=1,
    max_size=8,
)


@given(visits, st.randoms(use_true_random=False))
def test_batches_in_any_order_and_number_leave_what_the_events_left(made: list[Any], random: Any) -> None:
    events = [
        passage(badge, f"v{n}", START_MS + minute, weight_kg=kg, offset=n, lock_at_ms=lock, arrived_ms=START_MS + n)
        for n, (kg, badge, minute, lock) in enumerate(made)
    ]
    hbase = Hbase()
    batches = [*([event] for event in events), events[:3], events]
    random.shuffle(batches)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(happybase, "Connection", lambda *_, **__: hbase)
        writer, again = Writer(GATES, STORES), Writer(GATES, STORES)
        for batch in batches:
            writer.write(batch, [])
        for event in events[random.randrange(len(events)) :]:  # a driver that was started again
            again.write([event], [])
    for badge in {event["badge"] for event in events}:
        own = [event for event in events if event["badge"] == badge]
        weights = [event["weight_kg"] for event in own if event["weight_kg"] is not None]
        locks = [event["lock_at_ms"] for event in own if event["lock_at_ms"] is not None]
        assert row_of(badges, GATES, badge.encode(), hbase.rows("p.badges")[badge.encode()]) == {
            "badge": badge,
            "heaviest_kg": max(weights, default=None),
            "first_ms": min(event["at_ms"] for event in own),
            "door": "d",
            "lock": {"at_ms": locks[-1]} if locks else None,
            "alerts": {},
        }
    assert len(hbase.rows("p.visits")) == len(hbase.rows("p.door-log")) == len(events)


def test_an_older_value_that_comes_later_does_not_show_again(hbase: Hbase) -> None:
    """The newest value is that of the first: it was not written once more."""
    writer = Writer(GATES, STORES)
    for arrived, lock in ((0, 1), (3, 1), (2, 0)):
        writer.write([passage("b", f"v{arrived}", START_MS, lock_at_ms=lock, arrived_ms=START_MS + arrived)], [])
    assert row_of(badges, GATES, b"b", hbase.rows("p.badges")[b"b"])["lock"] == {"at_ms": 1}


@pytest.mark.parametrize("times", [1, 3])
def test_a_forgotten_key_is_gone_and_what_comes_later_is_kept_as_of_a_new_one(hbase: Hbase, times: int) -> None:
    writer = Writer(GATES, STORES)
    other = passage("b", "w", START_MS, weight_kg=200, door="d2", offset=99)
    writer.write([other], [alert_on(other)])
    for n in range(times):
        old = passage("a", f"v{n}", START_MS + 10 * n, weight_kg=250 - n, offset=n, lock_at_ms=5)
        writer.write([old], [alert_on(old)])
        assert row_of(badges, GATES, b"a", hbase.rows("p.badges")[b"a"])["heaviest_kg"] == 250 - n
        forget(hbase, "a", START_MS + 10 * n + 5)
        for again in (writer, Writer(GATES, STORES)):  # the batch is written again, also after a crash
            again.write([old, other], [alert_on(old), alert_on(other)])
        assert hbase.rows("p.badges").keys() == {b"b"}
        assert [*hbase.rows("p.visits")] == [*hbase.rows("p.visits")][:1]
        assert [row.partition(b"|")[0] for row in hbase.rows("p.door-log")] == [b"d2"]
    new = passage("a", "v9", START_MS + 1_000, weight_kg=3, offset=9, lock_at_ms=4)
    writer.write([new], [alert_on(new)])
    assert row_of(badges, GATES, b"a", hbase.rows("p.badges")[b"a"]) == {
        **{"badge": "a", "heaviest_kg": 3, "first_ms": START_MS + 1_000, "door": "d", "lock": {"at_ms": 4}},
        "alerts": {"heavy": 1},
    }
    assert len(hbase.rows("p.visits")) == 2


def test_a_key_that_is_forgotten_while_a_batch_is_written_is_gone_behind_it(hbase: Hbase) -> None:
    old, new = (passage("a", f"v{n}", START_MS + n, weight_kg=150 + n, offset=n) for n in (0, 10))
    hbase.when_put = lambda: forget(hbase, "a", START_MS + 5)
    Writer(GATES, STORES).write([old, new], [alert_on(old), alert_on(new)])
    assert len(hbase.rows("p.visits")) == len(hbase.rows("p.door-log")) == 1
    shown = row_of(badges, GATES, b"a", hbase.rows("p.badges")[b"a"])
    assert (shown["heaviest_kg"], shown["first_ms"], shown["alerts"]) == (160, START_MS + 10, {"heavy": 1})


def test_nothing_readable_of_a_key_is_left_in_its_mark() -> None:
    row, cells = mark_put("badge", "anna", Mark(START_MS, 1))
    assert b"anna" not in row + b"".join(cells) + b"".join(cells.values())
    assert Forgotten.read([(row, cells)]).of("badge", "anna") == Mark(START_MS, 1)
    with pytest.raises(RuleError, match="was forgotten 511 times"):
        mark_put("badge", "anna", Mark(START_MS, 511))


class TestVerdict:
    """The verdict on the tables of this use, from its raw messages."""

    ASKED = Question("p", GATES, GATES.rules, stores=("hbase",))

    @pytest.fixture
    def evidence(self, hbase: Hbase) -> Evidence:
        sent = [
            ("doors", {"badge": "a", "lock": "l", "at_ms": START_MS}),
            *(("passages", each) for each in self.sent("a", "b", "a", "c")),
        ]
        return self.ran(hbase, sent)

    def sent(self, *names: str) -> Iterator[dict[str, Any]]:
        for n, badge in enumerate(names):
            weight_kg = None if badge == "c" else 90 + 10 * n
            door = {"door": f"d{n % 2}", "celsius": 1.5, "weight_kg": weight_kg}
            yield {"badge": badge, "visit": f"v{n}", "at_ms": START_MS + n, **door}

    def ran(self, hbase: Hbase, sent: Iterable[tuple[str, dict[str, Any]]]) -> Evidence:
        """What the pipeline would have left."""
        raw: dict[str, list[Record]] = {"passages": [], "doors": []}
        tape = []
        for n, (kind, event) in enumerate(sent):
            value = json.dumps(event).encode()
            tape.append(Record(kind, 0, len(raw[kind]), START_MS + 10_000 * n, event["badge"].encode(), value))
            raw[kind].append(tape[-1])
        judged = [each for each in oracle.judge(GATES, GATES.rules, tape, {}) if each.record.topic == "passages"]
        events = [each.event | {"source_topic": "p.passages"} for each in judged if each.event]
        alerts = [
            {
                **{"alert_id": f.alert_id, "rule": f.rule, "rule_version": f.rule_version, "key": f.key},
                **{ALERTS.key: f.subject, "window_start_ms": None, "event_ids": list(f.event_ids), "sent_ms": None},
                "operands": {name: str(value) for name, value in f.operands.items()},
                **{"at_ms": f.at_ms, "ingest_ms": each.record.ingest_ms, "emit_ms": each.record.ingest_ms + 5},
            }
            for each in judged
            for f in each.findings
        ]
        Writer(GATES, STORES).write(events, alerts)
        outputs = {"enriched": events, "alerts": alerts, "dead-letters": [], "windows": []}
        records = {
            kind: [
                Record(kind, 0, n, e["ingest_ms"] + 5, key_of(GATES, kind, e), json.dumps(e).encode())
                for n, e in enumerate(own)
            ]
            for kind, own in outputs.items()
        }
        kinds = {"p.passages": "passages", "p.doors": "doors"}
        return Evidence(raw, records, self.stored(hbase), read_ms=START_MS + 60_000, kinds=kinds)

    def stored(self, hbase: Hbase) -> dict[str, Any]:
        found: dict[str, Any] = {f"table of {table.name}": hbase.rows(f"p.{table.name}") for table in GATES.tables}
        return found | {"forgotten": Forgotten.read(hbase.rows("p.forgotten").items())}

    def red(self, verdict: Verdict) -> dict[str, tuple[str, ...]]:
        return {check.name: check.offenders for check in verdict.checks if check.status == "failed"}

    def spoilt(self, evidence: Evidence, table: str, change: Any) -> dict[str, tuple[str, ...]]:
        rows = {row: dict(cells) for row, cells in evidence.stores[f"table of {table}"].items()}
        change(rows)
        verdict = judge(self.ASKED, replace(evidence, stores={**evidence.stores, f"table of {table}": rows}))
        return self.red(verdict)

    def test_right_tables_are_ok_and_each_has_a_check(self, evidence: Evidence) -> None:
        verdict = judge(self.ASKED, evidence)
        assert verdict.status == "ok"
        names = [check.name for check in verdict.checks if check.name.startswith("table of")]
        assert names == ["table of visits", "table of door-log", "table of badges", "table of per-door"]
        assert verdict.check("table of badges").figures == {"badges": 3, "rows": 3, "offenders": 0}

    def test_each_spoilt_cell_is_red(self, evidence: Evidence) -> None:
        def change(row: bytes, **cells: bytes) -> Any:
            return lambda rows: rows[row].update({name.replace("__", ":").encode(): v for name, v in cells.items()})

        (visit, *_) = evidence.stores["table of visits"]
        for table, spoil in (
            ("visits", lambda rows: rows.pop(visit)),
            ("visits", lambda rows: rows.update({b"x|0|y": {b"t:door": b"d"}})),
            ("visits", change(visit, t__celsius=b"1.6")),
            ("badges", change(b"a", s__heaviest_kg=b"111")),
            ("badges", change(b"a", s__first_ms=b"x")),
            ("badges", change(b"a", s__door=b'"east"')),
            ("badges", change(b"a", s__lock=b'{"at_ms": 1}')),
            ("badges", change(b"b", s__lock=b'{"at_ms": 1}')),
            ("badges", change(b"c", s__heaviest_kg=b"1")),
            ("badges", change(b"b", **{"a__heavy|" + "0" * 32: b"1"})),
            ("badges", lambda rows: rows.pop(b"c")),
            ("badges", lambda rows: rows.update({b"z": {b"s:door": b"1"}})),
            ("per-door", change(b"d0", s__lightest_kg=b"91")),
        ):
            assert self.spoilt(evidence, table, spoil).keys() == {f"table of {table}"}

    def test_forgotten_rows_are_counted_and_none_is_missing(self, hbase: Hbase, evidence: Evidence) -> None:
        forget(hbase, "a", START_MS + 30_000)
        verdict = judge(self.ASKED, replace(evidence, stores=self.stored(hbase)))
        assert self.red(verdict) == {}
        assert verdict.check("table of visits").figures["forgotten"] == 2
        assert verdict.check("table of badges").figures == {"badges": 2, "rows": 2, "forgotten": 1, "offenders": 0}
        without_mark = self.stored(hbase) | {"forgotten": NOTHING_FORGOTTEN}
        missing = self.red(judge(self.ASKED, replace(evidence, stores=without_mark)))
        assert missing["table of badges"] == ("missing: a",)

    def test_no_key_is_forgotten_until_a_moment_to_come(self, hbase: Hbase, evidence: Evidence) -> None:
        forget(hbase, "a", evidence.read_ms + 60_001)
        found = self.red(judge(self.ASKED, replace(evidence, stores=self.stored(hbase))))
        assert "which was still to come" in str(found["table of badges"])
        assert "which was still to come" in str(found["table of visits"])

    def test_a_key_that_was_forgotten_no_time_is_red(self, hbase: Hbase, evidence: Evidence) -> None:
        forget(hbase, "a", START_MS + 30_000)
        stored = self.stored(hbase)
        marks = Forgotten({row: replace(mark, times=0) for row, mark in stored["forgotten"].marks.items()})
        found = self.red(judge(self.ASKED, replace(evidence, stores=stored | {"forgotten": marks})))
        assert found.keys() >= {"table of visits", "table of badges"}
        assert "is forgotten 0 times" in str(found)

    def test_an_event_behind_the_forgetting_is_missed(self, hbase: Hbase, evidence: Evidence) -> None:
        forget(hbase, "a", START_MS + 29_999)  # the second passage came a millisecond later
        found = self.red(judge(self.ASKED, replace(evidence, stores=self.stored(hbase))))
        assert found["table of visits"] == (f"missing: a|{2**63 - 1 - START_MS - 2}|v2",)
        assert found["table of badges"][0] == "wrong: a: heaviest_kg is None, not 110"

    def test_a_forgotten_row_that_is_there_is_red_with_the_remedy(self, hbase: Hbase, evidence: Evidence) -> None:
        forget(hbase, "a", START_MS + 30_000)
        marks = {"forgotten": self.stored(hbase)["forgotten"]}
        found = self.red(judge(self.ASKED, replace(evidence, stores={**evidence.stores, **marks})))
        assert found["table of badges"] == ("a: forgotten, but written again; run `millrace forget` again",)

    def test_what_came_before_the_present_version_of_a_table_is_not_judged(self, evidence: Evidence) -> None:
        emptied = replace(evidence, stores={**evidence.stores, "table of visits": {}, "table of badges": {}})
        changed = {f"table of {name}": Versions(((None, START_MS + 30_000),)) for name in ("visits", "badges")}
        verdict = judge(replace(self.ASKED, in_force=changed), emptied)
        assert self.red(verdict).keys() == {"table of visits", "table of badges"}
        assert verdict.check("table of badges").offenders == ("missing: c",)  # the only badge that came later
        figures = verdict.check("table of visits").figures
        assert figures["accepted"] == figures["from before the table's present version, not judged"] == 2

    @pytest.mark.parametrize("name", ["table of visits", "table of badges", "table of per-door"])
    @pytest.mark.parametrize(
        ("past", "is_lost"),
        [
            ([("v0", 60_000)], True),
            ([(None, 60_000)], False),
            ([(None, 5_000), ("v0", 60_000)], True),
            ([("v0", 50_000), (None, 60_000)], False),
        ],
    )
    def test_all_rows_of_earlier_versions_lost_are_unknown(
        self, evidence: Evidence, name: str, past: list[tuple[str | None, int]], is_lost: bool
    ) -> None:
        versions = Versions(tuple((version, START_MS + after_ms) for version, after_ms in past))
        asked = replace(self.ASKED, in_force={name: versions})
        assert judge(asked, evidence).check(name).status == "ok"
        emptied = replace(evidence, stores={**evidence.stores, name: {}})
        assert judge(asked, emptied).check(name).status == ("unknown" if is_lost else "ok")

    def test_an_expired_row_may_be_gone(self, evidence: Evidence) -> None:
        hours_later = replace(evidence, read_ms=START_MS + 2 * 3_600_000 + 20_001)
        emptied = replace(hours_later, stores={**evidence.stores, "table of door-log": {}})
        offenders = self.red(judge(self.ASKED, emptied))["table of door-log"]
        assert len(offenders) == 2  # of four: two came later than that
        assert judge(self.ASKED, hours_later).check("table of door-log").figures["expired"] == 2

    @pytest.mark.parametrize(
        ("cells", "is_red"),
        [
            ({b"t:celsius": b"1.6"}, True),
            ({b"t:celsius": None}, False),
            ({b"t:other": b"1"}, True),
            ({b"t:celsius": None, b"t:badge": b"z"}, True),
        ],
    )
    def test_what_is_there_of_an_expired_row_is_compared(
        self, evidence: Evidence, cells: dict[bytes, bytes | None], is_red: bool
    ) -> None:
        name, hours_later = "table of door-log", replace(evidence, read_ms=START_MS + 2 * 3_600_000 + 20_001)
        rows = dict(evidence.stores[name])
        (key,) = [key for key in rows if dict(rows[key])[b"t:visit"] == b"v0"]
        rows[key] = {column: cell for column, cell in {**rows[key], **cells}.items() if cell is not None}
        spoilt = replace(hours_later, stores={**evidence.stores, name: rows})
        found = self.red(judge(self.ASKED, spoilt)).get(name, ())
        assert [each.startswith(f"wrong: {key.decode()}: ") for each in found] == [True] * is_red
        changed = replace(self.ASKED, in_force={name: Versions(((None, START_MS + 10_001),))})
        assert name not in self.red(judge(changed, spoilt)), "another version wrote it"

    def test_what_is_there_of_expired_alerts_is_compared(self, evidence: Evidence) -> None:
        listed, name = Table("listed", key="badge", alerts=True, retention_hours=2), "table of listed"
        asked = replace(self.ASKED, use=replace(GATES, tables=(listed,)))
        hours_later = replace(evidence, read_ms=START_MS + 3 * 3_600_000)
        ((column, cell),) = [each for each in evidence.stores["table of badges"][b"a"].items() if each[0][:2] == b"a:"]
        for cells, is_red in (
            ({column: cell}, False),
            ({column: b"1"}, True),
            ({b"a:heavy|x": cell}, True),
            ({column: cell, b"t:x": b"1"}, True),
        ):
            found = self.red(judge(asked, replace(hours_later, stores={name: {b"a": cells}})))
            assert (name in found) == is_red
        assert name not in self.red(judge(asked, replace(hours_later, stores={name: {}})))


def test_a_whole_number_of_any_length_is_a_key_and_a_larger_one_is_none() -> None:
    use = SimpleNamespace(enriched=SimpleNamespace(kind=lambda field: "whole"))
    assert value_of(use, "post", "9223372036854775807") == 2**63 - 1  # type: ignore[arg-type]
    assert value_of(use, "post", "007") == 7  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="'9223372036854775808' is not a post: give a whole number of at most 92233720"):
        value_of(use, "post", "9223372036854775808")  # type: ignore[arg-type]
