"""Writes a use's tables to HBase, so that a batch may be written again, and forgotten keys stay forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import happybase

from millrace.patterns import Stores
from millrace.patterns.plan import table_of
from millrace.rules import UseCase
from millrace.rules.layout import NOTHING_FORGOTTEN, Delete, Forgotten, Put, by_call, puts, taken_back
from millrace.rules.tables import FORGOTTEN

MUTATIONS_MOST = 2_000  # in one call to HBase
WITHIN_MS = 60_000

Event = Mapping[str, Any]


class Writer:
    """Writes batches of accepted events and alerts."""

    def __init__(self, use: UseCase, stores: Stores) -> None:
        self._use, self._stores, self._cache = use, stores, WriteCache()
        self._forgotten = NOTHING_FORGOTTEN

    def write(self, events: Iterable[Event], alerts: Iterable[Event]) -> None:
        """Write them; safe to retry after a failure."""
        events, alerts = list(events), list(alerts)
        if not events and not alerts:
            return
        with self._connection() as hbase:
            self._note(self._marks(hbase))
            while True:
                wanted = puts(self._use, events, alerts, self._forgotten)
                self._put(hbase, wanted)
                # A key may be forgotten at any moment: what was written for it meanwhile goes, too.
                if (marks := self._marks(hbase)) == self._forgotten:
                    return
                self._note(marks)
                self._delete(hbase, taken_back(wanted, puts(self._use, events, alerts, marks)))

    def _note(self, marks: Forgotten) -> None:
        if marks != self._forgotten:
            self._forgotten, self._cache = marks, WriteCache()

    def _marks(self, hbase: happybase.Connection) -> Forgotten:
        name = table_of(self._stores.hbase_prefix, FORGOTTEN)
        if name.encode() not in hbase.tables():
            return NOTHING_FORGOTTEN
        return Forgotten.read(hbase.table(name).scan())

    def _put(self, hbase: happybase.Connection, wanted: Iterable[Put]) -> None:
        changes = self._cache.changes(wanted)
        for (name, timestamp), own in by_call(changes).items():
            with self._batch(hbase, name, timestamp) as batch:
                for each in own:
                    batch.put(each.row, each.cells)
        self._cache.add(changes)

    def _delete(self, hbase: happybase.Connection, unwanted: Iterable[Delete]) -> None:
        for (name, timestamp), own in by_call(unwanted).items():
            with self._batch(hbase, name, timestamp) as batch:
                for each in own:
                    batch.delete(each.row, each.columns)

    def _batch(self, hbase: happybase.Connection, table: str, timestamp: int | None) -> Any:
        name = table_of(self._stores.hbase_prefix, table)
        return hbase.table(name).batch(timestamp, batch_size=MUTATIONS_MOST)

    @contextmanager
    def _connection(self) -> Iterator[happybase.Connection]:
        hbase = happybase.Connection(self._stores.hbase_host, self._stores.hbase_port, timeout=WITHIN_MS)
        try:
            yield hbase
        finally:
            hbase.close()


class WriteCache:
    """Cells with timestamps of their own that this process has written, so that it writes only changes.

    A call to the Thrift server has one timestamp, and each of these cells needs its own: a call for every event would
    cost more than everything else. Only the number of calls depends on this cache.
    """

    CELLS_MOST = 200_000

    def __init__(self) -> None:
        self._held: dict[tuple[str, bytes, bytes], tuple[int, bytes]] = {}

    def changes(self, puts: Iterable[Put]) -> list[Put]:
        """The puts that may change a cell."""
        return [each for each in puts if not all(self._is_written(each, name) for name in each.cells)]

    def add(self, puts: Iterable[Put]) -> None:
        """Record puts that were written."""
        if len(self._held) > self.CELLS_MOST:
            self._held.clear()
        for each in puts:
            if each.timestamp is not None:
                for name, value in each.cells.items():
                    self._held[each.table, each.row, name] = (each.timestamp, value)

    def _is_written(self, put: Put, name: bytes) -> bool:
        place = put.table, put.row, name
        timestamp, value = self._held.get(place, (-1, b""))
        if put.timestamp is None or (value != put.cells[name] and put.timestamp >= timestamp):
            return False
        # An older value that comes later is none any more, though the cell has an older timestamp.
        self._held[place] = max(put.timestamp, timestamp), value
        return True
