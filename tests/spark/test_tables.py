"""The writer of tables, `show` and `forget` on a real HBase, for fraud and for a use that the library never saw."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from millrace.cli.app import run
from millrace.engines.spark.hbase import Writer
from millrace.errors import InfraError
from millrace.patterns import load
from millrace.patterns.plan import table_of
from millrace.rules.layout import families, row_of
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.tables import HBase
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs.forget import forget
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from pipelines.fraud import FRAUD
from tests.pipelines.test_tables import GATES, PINNED, alert_on, badges, by_door, by_visit, passage

pytestmark = pytest.mark.stack

NAME = "flink-spark"


@pytest.fixture(scope="module")
def target(stack: Settings) -> Target:
    return Target.read(stack, {})


@pytest.fixture
def fraud(target: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """The writer of a pattern's tables, which are there and empty."""
    for name, value in target.settings.environment().items():
        monkeypatch.setenv(name, value)
    provision(target, NAME)
    yield Writer(FRAUD, target.stores(load(NAME)))
    teardown(target, NAME, data=True)


def test_the_tables_of_another_use_are_written_and_their_time_to_live_is_held(target: Target) -> None:
    hbase, prefix = target.hbase, f"gates-{time.time_ns()}"
    tables = {table_of(prefix, table.name): families(table) for table in GATES.tables}
    assert [change.action for change in hbase.ensure(tables)] == ["create"] * 4
    try:
        assert [change.action for change in hbase.ensure(tables)] == ["keep"] * 4
        name = table_of(prefix, by_door.name)
        with pytest.raises(
            InfraError, match=rf"{name} keeps the cells of family t for 7200 s, not 3600 s; `alter '{name}"
        ):
            hbase.ensure({name: families(replace(by_door, retention_hours=1))})
        events = [
            passage("a", "v1", 1_790_000_000_000, weight_kg=120, offset=1, door="east", lock_at_ms=5),
            passage("a", "v2", 1_790_000_000_001, weight_kg=60, offset=2, door="west"),
            passage("a|b", "v3", 1_790_000_000_002, offset=3),
        ]
        writer = Writer(GATES, replace(target.stores(load(NAME)), hbase_prefix=prefix))
        for batch in (events[1:], events, events[:1]):  # in any order, again and again
            writer.write(batch, [alert_on(event) for event in batch])
        rows = [(row, row_of(by_visit, GATES, row, cells)["visit"]) for row, cells in scanned(hbase, prefix, "visits")]
        assert [visit for _, visit in rows] == ["v3", "v2", "v1"]
        logged = [row_of(by_door, GATES, row, cells) for row, cells in scanned(hbase, prefix, "door-log")]
        assert sorted(logged, key=lambda event: event["visit"]) == events
        shown = [row_of(badges, GATES, row, cells) for row, cells in scanned(hbase, prefix, "badges")]
        assert shown[0] == {
            **{"badge": "a", "heaviest_kg": 120, "first_ms": 1_790_000_000_000, "door": "west", "lock": {"at_ms": 5}},
            "alerts": {"heavy": 2},
        }
        assert [row["badge"] for row in shown] == ["a", "a|b"]
    finally:
        hbase.remove(list(tables))


def scanned(hbase: HBase, prefix: str, table: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return list(hbase.scan(table_of(prefix, table)))


def test_one_key_is_shown_as_it_always_was(fraud: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    fraud.write(PINNED["events"], [alert | {"ingest_ms": 1} for alert in PINNED["alerts"]])
    assert run(["customer", "anna", "--pattern", NAME, "--last", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["version", "verb", "pattern", "customer", "highest_cents", "phone", "alerts", "transactions"]
    assert (found["highest_cents"], found["alerts"]) == (91200, {"burst": 1})
    assert found["phone"] == {"latitude": 0.0, "longitude": -180.0, "at_ms": 1789999999200}
    assert found["transactions"] == PINNED["events"][1:3]
    assert run(["customer", "anna", "--pattern", NAME]) == 0
    assert "912.00" in capsys.readouterr().out
    assert run(["show", NAME, "transactions", "carl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == PINNED["events"][5:]
    assert run(["show", NAME, "customers", "carl"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["carl", "highest          0.07"]
    with pytest.raises(InfraError, match=f"{NAME} has no customer 'ann'"):
        run(["customer", "ann", "--pattern", NAME])  # though other keys begin so


def test_a_forgotten_key_is_gone_from_the_tables_and_the_reference_data_and_comes_back_as_new(
    fraud: Writer, target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = load(NAME).topic("customers")
    topics.publish(target.bootstrap, [(reference, b"anna", b'{"customer": "anna", "segment": "s"}')])
    events, alerts = arrived(0), [alert | {"ingest_ms": 1} for alert in PINNED["alerts"]]
    fraud.write(events, alerts)
    assert run(["forget", NAME, "anna", "--yes", "--json"]) == 0
    gone = json.loads(capsys.readouterr().out)
    assert (gone["field"], gone["rows"]) == ("customer", {"transactions": 3, "customers": 1})
    assert gone["references"] == ["customers"]
    with closing(Tail(target.bootstrap, {"customers": reference})) as tail:
        assert [(record.key, record.value is None) for record in tail.new()][-1] == (b"anna", True)
    fraud.write(events, alerts)  # the batch is written again, by this driver and by the next
    Writer(FRAUD, target.stores(load(NAME))).write(events, alerts)
    assert keys(target) == [b"berta:2_x.-", b"carl"]
    later = arrived(gone["until_ms"] + 1)[0] | {"amount_cents": 7, "transaction_id": "t9"}
    fraud.write([later], [])
    assert run(["customer", "anna", "--pattern", NAME, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["highest_cents"], shown["phone"], shown["alerts"]) == (7, None, {})
    assert shown["transactions"] == [later]
    again = forget(target, NAME, "anna")
    assert again.rows == {"transactions": 1, "customers": 1}
    assert keys(target) == [b"berta:2_x.-", b"carl"]
    assert target.hbase.forgotten(NAME).of("customer", "anna").times == 2


def test_what_is_forgotten_is_removed_with_the_data(target: Target) -> None:
    provision(target, NAME)
    forget(target, NAME, "anna")
    assert [change.name for change in teardown(target, NAME, data=True, plan=True)].count(f"{NAME}.forgotten") == 1
    teardown(target, NAME, data=True)
    assert target.hbase.forgotten(NAME).marks == {}


def arrived(ingest_ms: int) -> list[dict[str, Any]]:
    return [event | {"ingest_ms": ingest_ms, "source_offset": n} for n, event in enumerate(PINNED["events"])]


def keys(target: Target) -> list[bytes]:
    transactions = {row.partition(b"|")[0] for row, _ in scanned(target.hbase, NAME, "transactions")}
    customers = [row for row, _ in scanned(target.hbase, NAME, "customers")]
    assert sorted(transactions) == customers
    return customers
