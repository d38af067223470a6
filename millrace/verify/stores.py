"""What was persisted: each accepted event once, and of each customer the state that its events amount to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from millrace.patterns.tables import HIGHEST_CENTS, PHONE, TRANSACTION, alert_column, transaction_key
from millrace.verify.evidence import Event, Identity, Origin, is_same
from millrace.verify.verdict import Check, checked

Accepted = Mapping[Origin, Event]
Copies = Mapping[Origin, Sequence[Event]]
"""What the intermediate topic carries of each event: after a failure more than once, and not always the same."""
Rows = Mapping[bytes, Mapping[bytes, bytes]]


def parquet(accepted: Accepted, copies: Copies, rows: Iterable[Event]) -> Check:
    """The files hold every accepted event exactly once."""
    wanted = {_identity(event): origin for origin, event in accepted.items()}
    got: dict[Identity, Event] = {}
    counts: Counter[Identity] = Counter()
    for row in rows:
        counts[_identity(row)] += 1
        got[_identity(row)] = row
    offenders = [f"missing: {'/'.join(identity)}" for identity in wanted if identity not in got]
    offenders += [f"extra: {'/'.join(identity)}" for identity in got if identity not in wanted]
    offenders += [f"{count} times: {'/'.join(identity)}" for identity, count in counts.items() if count > 1]
    for identity, row in got.items():
        if identity in wanted and (wrong := _least_wrong(wanted[identity], accepted, copies, partial(_differing, row))):
            offenders.append(f"wrong: {'/'.join(identity)}: {', '.join(wrong)}")
    figures = {"accepted": len(wanted), "rows": counts.total()}
    return checked("files", "Do the files hold every accepted event exactly once?", figures, offenders)


def table_transactions(accepted: Accepted, copies: Copies, rows: Rows) -> Check:
    """The table has one row for every accepted event, with its fields."""
    wanted = {
        transaction_key(event["customer"], event["at_ms"], event["transaction_id"]): origin
        for origin, event in accepted.items()
    }
    offenders = [f"missing: {key.decode()}" for key in wanted if key not in rows]
    offenders += [f"extra: {key.decode(errors='replace')}" for key in rows if key not in wanted]
    for key, origin in wanted.items():
        if key in rows and (wrong := _least_wrong(origin, accepted, copies, partial(_differing_cells, rows[key]))):
            offenders.append(f"wrong: {key.decode()}: {', '.join(wrong)}")
    figures = {"accepted": len(wanted), "rows": len(rows)}
    return checked("table of transactions", "Does HBase hold every accepted event?", figures, offenders)


def table_customers(accepted: Accepted, copies: Copies, alerts: Iterable[Event], rows: Rows) -> Check:
    """Each customer's row has the largest amount, where the phone was at the last purchase, and the alerts."""
    highest: dict[str, int] = {}
    last: dict[str, Origin] = {}
    for origin, event in sorted(accepted.items(), key=lambda each: (each[1]["ingest_ms"], each[0])):
        customer = event["customer"]
        highest[customer] = max(event["amount_cents"], highest.get(customer, 0))
        if any(copy["phone_at_ms"] is not None for copy in (event, *copies.get(origin, ()))):
            last[customer] = origin
    alerted: dict[str, set[bytes]] = {}
    for alert in alerts:
        alerted.setdefault(alert["customer"], set()).add(alert_column(alert["rule"], alert["alert_id"]))
    offenders = [
        f"extra: {key.decode(errors='replace')}" for key in rows if key.decode(errors="replace") not in highest
    ]
    for customer, cents in highest.items():
        row = rows.get(customer.encode())
        if row is None:
            offenders.append(f"missing: {customer}")
            continue
        if row.get(HIGHEST_CENTS) != str(cents).encode():
            offenders.append(f"wrong: {customer}: highest_cents is {row.get(HIGHEST_CENTS)!r}, not {cents}")
        phones = [_phone(None)]
        if customer in last:
            origin = last[customer]
            phones = [_phone(event) for event in (accepted[origin], *copies.get(origin, ()))]
        if not any(is_same(phone, _shown(row.get(PHONE))) for phone in phones):
            offenders.append(f"wrong: {customer}: phone is {row.get(PHONE)!r}, not {phones[0]}")
        shown = {column for column in row if column.startswith(b"a:")}
        if shown != alerted.get(customer, set()):
            offenders.append(f"wrong: {customer}: {len(shown)} alerts, not {len(alerted.get(customer, set()))}")
    figures = {"customers": len(highest), "rows": len(rows)}
    return checked("table of customers", "Does HBase know what every customer's events amount to?", figures, offenders)


def _least_wrong(
    origin: Origin, accepted: Accepted, copies: Copies, differing: Callable[[Event], list[str]]
) -> list[str]:
    """What is wrong with a stored event, unless it is just as one of the copies on the topic."""
    wrong = differing(accepted[origin])
    return [] if wrong and not all(map(differing, copies.get(origin, ()))) else wrong


def _identity(event: Event) -> Identity:
    return event["customer"], event["transaction_id"]


def _differing(row: Event, event: Event) -> list[str]:
    return [
        f"{name} is {row.get(name)!r}, not {value!r}"
        for name, value in event.items()
        if name not in ("source_topic", "flags") and not is_same(value, row.get(name))
    ]


def _differing_cells(row: Mapping[bytes, bytes], event: Event) -> list[str]:
    wrong = []
    for name, value in event.items():
        cell = row.get(f"{TRANSACTION}:{name}".encode())
        if name in ("source_topic", "flags"):
            continue
        if not _cell_says(cell, value):
            wrong.append(f"{name} is {cell!r}, not {value!r}")
    return wrong


def _cell_says(cell: bytes | None, value: Any) -> bool:
    if value is None or cell is None:
        return cell is None and value is None
    if isinstance(value, str):
        return cell.decode() == value
    try:
        return is_same(float(value), float(cell)) if isinstance(value, float) else int(cell) == value
    except ValueError:
        return False


def _phone(event: Event | None) -> list[Any]:
    """Where a phone was when an event was judged."""
    return [None if event is None else event[f"phone_{name}"] for name in ("at_ms", "latitude", "longitude")]


def _shown(cell: bytes | None) -> list[Any]:
    """Where a phone is by its cell."""
    shown = json.loads(cell or b"{}")
    return [shown.get(name) for name in ("at_ms", "latitude", "longitude")]
