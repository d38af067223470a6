"""Tables: HBase holds each accepted event, and the current state of each key."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from millrace.oracle import Origin
from millrace.rules import ALERTS, Last, Max, Table
from millrace.rules.layout import (
    ALERT,
    EVENT,
    NOTHING_FORGOTTEN,
    Forgotten,
    Mark,
    alert_column,
    alert_key,
    row_key,
    state_column,
    state_value,
)
from millrace.rules.outputs import INGEST_MS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.stored import differing_cells, least_wrong, value_in
from millrace.verify.evidence import FORGOTTEN, Event, is_same, table_key

Rows = Mapping[bytes, Mapping[bytes, bytes]]
Listed = defaultdict[bytes, dict[bytes, bytes]]
EARLIER = "from before the table's present version, not judged"
LOST = "nothing is judged, and no row of the table's earlier versions is there"
AGAIN = "forgotten, but written again; run `millrace forget` again"


def checker(table: Table) -> Checker:
    """The check of one table."""
    name = table_key(table.name)
    if table.columns:
        return Checker(name, "Does HBase hold every accepted event?", partial(events, table), (name,), (FORGOTTEN,))
    needs = (name, ALERTS.name) if table.alerts else (name,)
    return Checker(
        name, f"Does HBase hold each {table.first}'s current state?", partial(keys, table), needs, (FORGOTTEN,)
    )


def events(table: Table, case: Case) -> Found | Undecided:
    """The table has one row for every accepted event, with its fields; of an expired one what is there is right."""
    rows: Rows = case.evidence.stores[table_key(table.name)]
    columns, forgotten = table.columns_of(case.question.use.enriched), _forgotten(case)
    wanted, gone, expired, left, unjudged = {}, set(), set(), {}, {}
    since_ms = case.versions(table_key(table.name)).since_ms
    for origin, event in case.expected.accepted.items():
        key = row_key(table, event)
        if forgotten.has_event(table, case.question.use, event):
            gone.add(key)
        elif _is_expired(table, event["ingest_ms"], case):
            expired.add(key)
            if key in rows and event["ingest_ms"] >= since_ms:
                left[key] = origin
        elif event["ingest_ms"] < since_ms:
            unjudged[key] = event["ingest_ms"]
        else:
            wanted[key] = origin
    offenders = [f"missing: {_text(key)}" for key in wanted if key not in rows]
    offenders += [_unwanted(key, gone) for key in sorted(rows.keys() - wanted.keys() - expired - unjudged.keys())]
    for key, origin in {**wanted, **left}.items():
        cells = {_field(column): cell for column, cell in rows.get(key, {}).items()}
        # HBase drops each cell by the time at which it was written.
        there = [name for name in columns if key in wanted or name in cells]
        if key in rows and (wrong := least_wrong(case, origin, partial(differing_cells, case, cells, there))):
            offenders.append(f"wrong: {_text(key)}: {', '.join(wrong)}")
    offenders += _misfits(case, forgotten)
    figures = {"accepted": len(wanted), "rows": len(rows)}
    figures |= _counted({"forgotten": len(gone), "expired": len(expired), EARLIER: len(unjudged)})
    if not wanted and not offenders and _are_lost(table, case, unjudged):
        return Undecided(LOST, figures)
    return Found(figures, offenders)


def keys(table: Table, case: Case) -> Found | Undecided:
    """Each key's row has the state that its events left, and its alerts."""
    rows: Rows = case.evidence.stores[table_key(table.name)]
    forgotten = _forgotten(case)
    own: dict[bytes, list[Origin]] = defaultdict(list)
    gone = set()
    for origin, event in sorted(case.expected.accepted.items(), key=lambda each: (each[1]["ingest_ms"], each[0])):
        if forgotten.has_event(table, case.question.use, event):
            gone.add(row_key(table, event))
        else:
            own[row_key(table, event)].append(origin)
    alerted, may_be_there = _alerted(table, case, forgotten)
    states = {name: _expected(table, name, case) for name in table.state}
    held = {row for row, origins in own.items() if any(_has_value(expected(origins)) for expected in states.values())}
    since_ms = case.versions(table_key(table.name)).since_ms
    unjudged = {row for row, (first, *_) in own.items() if case.expected.accepted[first]["ingest_ms"] < since_ms}
    wanted = (held | alerted.keys()) - unjudged
    offenders = [_unwanted(row, gone) for row in sorted(rows.keys() - wanted - may_be_there.keys() - unjudged)]
    for row in sorted(wanted | (may_be_there.keys() & rows.keys() - unjudged)):
        if row not in rows:
            offenders.append(f"missing: {_text(row)}")
            continue
        for name, expected in states.items():
            possible, cell = expected(own.get(row, [])), rows[row].get(state_column(name))
            if not any(is_cell_of(cell, value) for value in possible):
                offenders.append(f"wrong: {_text(row)}: {name} is {cell!r}, not {possible[0]}")
        listed = {column: cell for column, cell in rows[row].items() if column.startswith(f"{ALERT}:".encode())}
        known = {**may_be_there[row], **alerted[row]}
        if alerted[row].keys() - listed.keys() or listed.keys() - known.keys():
            offenders.append(f"wrong: {_text(row)}: {len(listed)} alerts, not {len(alerted[row])}")
        offenders += [
            f"wrong: {_text(row)}: {_text(column)} is {cell!r}, not {known[column]!r}"
            for column, cell in listed.items()
            if column in known and cell != known[column]
        ]
        offenders += [
            f"wrong: {_text(row)}: {_text(column)} is no column of the table"
            for column in rows[row]
            if column not in listed and column not in map(state_column, states)
        ]
    offenders += _misfits(case, forgotten)
    figures = {table.name: len(wanted), "rows": len(rows)}
    figures |= _counted({"forgotten": len(gone - wanted), EARLIER: len(unjudged)})
    newest_ms = {row: case.expected.accepted[own[row][-1]]["ingest_ms"] for row in unjudged & (held | alerted.keys())}
    if not wanted and not offenders and _are_lost(table, case, newest_ms):
        return Undecided(LOST, figures)
    return Found(figures, offenders)


def _field(column: bytes) -> str:
    return _text(column).removeprefix(f"{EVENT}:")


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _expected(table: Table, name: str, case: Case) -> Callable[[list[Origin]], list[Any]]:
    """What a state may be, given the events of a key in their order; an event that was written twice had two forms."""
    accepted, copies = case.expected.accepted, case.copies

    def forms(origin: Origin) -> list[Any]:
        return [state_value(table, name, event) for event in (accepted[origin], *copies.get(origin, ()))]

    def last(origins: list[Origin]) -> list[Any]:
        possible = (forms(origin) for origin in reversed(origins))
        return next(filter(_has_value, possible), [None])

    def extreme(origins: list[Origin]) -> list[Any]:
        values = (state_value(table, name, accepted[origin]) for origin in origins)
        return [choose((value for value in values if value is not None), default=None)]

    measure = table.state[name]
    choose: Callable[..., Any] = max if isinstance(measure, Max) else min
    return last if isinstance(measure, Last) else extreme


def _alerted(table: Table, case: Case, forgotten: Forgotten) -> tuple[Listed, Listed]:
    """The cells of the alerts that each row lists, and of those that may have expired."""
    listed: Listed = defaultdict(dict)
    expired: Listed = defaultdict(dict)
    for record, alert in case.alerts if table.alerts else ():
        key = alert_key(table, case.question.use, alert)
        if key is not None and not is_forgotten(forgotten, table, key, alert):
            found = expired if _is_expired(table, record.ingest_ms, case) else listed
            column = alert_column(alert["rule"], alert["alert_id"])
            found[row_key(table, {table.first: key})][column] = b"%d" % alert["at_ms"]
    return listed, expired


def is_forgotten(forgotten: Forgotten, table: Table, key: str, alert: Event) -> bool:
    """Whether a table no longer holds an alert of the key; one without the time of its cause is red anyway."""
    return alert.get(INGEST_MS.name) is not None and forgotten.has_alert(table, key, alert)


def _has_value(possible: Iterable[Any]) -> bool:
    """Whether a state may have a cell."""
    return any(value is not None for value in possible)


def is_cell_of(cell: bytes | None, value: Any) -> bool:
    """Whether a cell of a state shows a value; None stands for no cell."""
    if cell is None or value is None:
        return cell is None and value is None
    try:
        shown = value_in(cell)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, Mapping):
        return is_same(value, shown)
    is_whole = isinstance(shown, dict) and shown.keys() == value.keys()
    return is_whole and all(is_same(each, shown[name]) for name, each in value.items())


def _forgotten(case: Case) -> Forgotten:
    return case.evidence.stores.get(FORGOTTEN) or NOTHING_FORGOTTEN


def _misfits(case: Case, forgotten: Forgotten) -> list[str]:
    read_ms = case.evidence.read_ms
    return misfits(forgotten.marks, read_ms + case.question.bounds.clocks_ms if read_ms else math.inf)


def misfits(marks: Mapping[bytes, Mark], now_ms: float) -> list[str]:
    """The complaints about marks of forgotten keys that `millrace forget` does not write.

    Up to a later moment: the events of the key until then would be forgotten, too. Or not even once.
    """
    ahead = [
        f"{_text(row)} is forgotten until {mark.until_ms}, which was still to come"
        for row, mark in marks.items()
        if mark.until_ms > now_ms
    ]
    return ahead + [f"{_text(row)} is forgotten {mark.times} times" for row, mark in marks.items() if mark.times < 1]


def _is_expired(table: Table, written_ms: int, case: Case) -> bool:
    """Whether HBase may have dropped a row."""
    hours, read_ms = table.retention_hours, case.evidence.read_ms
    # A backfill writes now what arrived long ago.
    return hours is not None and not case.question.is_finite and written_ms < read_ms - hours * 3_600_000


def _are_lost(table: Table, case: Case, unjudged: Mapping[bytes, int]) -> bool:
    """Whether an earlier version of the table wrote rows, and none of them is there; each has the time of its event."""
    name = table_key(table.name)
    added_ms = max((until_ms for version, until_ms in case.versions(name).past if version is None), default=0)
    written = {row for row, at_ms in unjudged.items() if at_ms >= added_ms}
    return bool(written) and written.isdisjoint(case.evidence.stores[name])


def _unwanted(row: bytes, gone: set[bytes]) -> str:
    name = _text(row)
    return f"{name}: {AGAIN}" if row in gone else f"extra: {name}"


def _counted(figures: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in figures.items() if number}
