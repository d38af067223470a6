"""The latest state in HBase: transactions by customer and time, and the current values of each customer.

Every write is idempotent: the content of a cell does not depend on the number or order of writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import happybase
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.engines.spark.tuning import PERSIST_ROWS_MOST
from millrace.patterns import EnginePlan, Stores
from millrace.patterns.plan import table_of
from millrace.rules import ALERTS
from pipelines.fraud.tables import (
    CUSTOMERS,
    HIGHEST_CENTS,
    PHONE,
    TRANSACTIONS,
    alert_column,
    cells_of,
    transaction_key,
)

MUTATIONS_MOST = 2_000  # in one call to HBase
WITHIN_MS = 60_000
OFFSET_BITS = 20  # of an event's offset, behind its arrival's millisecond: no million events come within one

Event = Mapping[str, Any]
Cells = Mapping[bytes, bytes]


@dataclass(frozen=True)
class Put:
    """Cells of one row; of two values of a cell the one with the larger timestamp is kept, the last one without."""

    table: str
    row: bytes
    cells: Cells
    timestamp: int | None = None


def messages(spark: SparkSession, plan: EnginePlan) -> DataFrame:
    """Accepted events and alerts, each in a column of its own."""
    enriched = plan.use.enriched
    source = topics.source(
        spark, plan.bootstrap, [plan.topics[kind.name] for kind in (enriched, ALERTS)], PERSIST_ROWS_MOST
    )
    read = [
        F.when(F.col("topic") == plan.topics[kind.name], topics.parsed(kind, F.col("value"))).alias(name)
        for kind, name in ((enriched, "event"), (ALERTS, "alert"))
    ]
    return source.select(*read).filter(topics.is_whole(enriched, "event") | topics.is_whole(ALERTS, "alert"))


def writer(plan: EnginePlan) -> Callable[[DataFrame, int], None]:
    """The function that stores a batch of messages."""
    assert plan.stores is not None
    stores, cache = plan.stores, WriteCache()

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        events = [row.event.asDict() for row in rows if row.event is not None]
        changes = cache.changes(of_customers(events))
        put(
            stores, [*of_transactions(events), *of_alerts(row.alert for row in rows if row.alert is not None), *changes]
        )
        cache.add(changes)

    return write


class WriteCache:
    """Cells of the customers table that this process has written, so that it writes only changes.

    A call to the Thrift server has one timestamp, and each of these cells needs its own: a call for every event would
    cost more than everything else. Only the number of calls depends on this cache.
    """

    CELLS_MOST = 200_000

    def __init__(self) -> None:
        self._held: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}

    def changes(self, puts: Iterable[Put]) -> list[Put]:
        """The puts that may change a cell."""
        return [each for each in puts if not all(self._is_written(each, name) for name in each.cells)]

    def add(self, puts: Iterable[Put]) -> None:
        """Record puts that were written."""
        if len(self._held) > self.CELLS_MOST:
            self._held.clear()
        for each in puts:
            for name, value in each.cells.items():
                self._held[each.row, name] = (each.timestamp or 0, value)

    def _is_written(self, put: Put, name: bytes) -> bool:
        timestamp, value = self._held.get((put.row, name), (-1, b""))
        return value == put.cells[name] or (put.timestamp or 0) < timestamp


def of_transactions(events: Iterable[Event]) -> Iterator[Put]:
    """The rows of accepted events; a second write changes nothing."""
    for event in events:
        key = transaction_key(event["customer"], event["at_ms"], event["transaction_id"])
        yield Put(TRANSACTIONS, key, cells_of(event))


def of_customers(events: Iterable[Event]) -> Iterator[Put]:
    """The cells of customers that accepted events may change."""
    highest: dict[str, Event] = {}
    newest: dict[str, Event] = {}
    for event in events:
        customer = event["customer"]
        highest[customer] = max(highest.get(customer, event), event, key=lambda each: each["amount_cents"])
        if event["phone_at_ms"] is not None:
            newest[customer] = max(newest.get(customer, event), event, key=_arrival)
    for customer, event in highest.items():
        # The amount is its own timestamp: HBase keeps the largest.
        yield Put(CUSTOMERS, customer.encode(), {HIGHEST_CENTS: b"%d" % event["amount_cents"]}, event["amount_cents"])
    for customer, event in newest.items():
        phone = {name: event[f"phone_{name}"] for name in ("latitude", "longitude", "at_ms")}
        yield Put(CUSTOMERS, customer.encode(), {PHONE: json.dumps(phone).encode()}, _arrival(event))


def of_alerts(alerts: Iterable[Event]) -> Iterator[Put]:
    """A column for each alert: readers count columns, so a repeated alert counts once."""
    for alert in alerts:
        cells = {alert_column(alert["rule"], alert["alert_id"]): b"%d" % alert["at_ms"]}
        yield Put(CUSTOMERS, alert["subject"].encode(), cells)


def put(stores: Stores, puts: Iterable[Put]) -> None:
    """Write them; safe to retry after a failure."""
    by_call: dict[tuple[str, int | None], list[Put]] = {}
    for each in puts:
        by_call.setdefault((each.table, each.timestamp), []).append(each)
    if not by_call:
        return
    hbase = happybase.Connection(stores.hbase_host, stores.hbase_port, timeout=WITHIN_MS)
    try:
        for (name, timestamp), own in by_call.items():
            with hbase.table(table_of(stores.hbase_prefix, name)).batch(timestamp, batch_size=MUTATIONS_MOST) as batch:
                for each in own:
                    batch.put(each.row, each.cells)
    finally:
        hbase.close()


def _arrival(event: Event) -> int:
    """When an event arrived, as one number: of two of the same millisecond, the later one of their partition is larger.

    A customer's events share a partition. The number is far ahead of the clock: to HBase it is a version, not a time.
    """
    return event["ingest_ms"] << OFFSET_BITS | event["source_offset"] % (1 << OFFSET_BITS)
