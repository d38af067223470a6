"""Tables: HBase holds each accepted event, and the current state of each customer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from millrace.oracle import Origin
from millrace.rules import ALERTS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.checks.stored import differing_cells, least_wrong
from millrace.verify.evidence import Event, is_same, table_key
from pipelines.fraud.tables import (
    CUSTOMERS,
    HIGHEST_CENTS,
    PHONE,
    TRANSACTION,
    TRANSACTIONS,
    alert_column,
    transaction_key,
)

Rows = Mapping[bytes, Mapping[bytes, bytes]]


def transactions(case: Case) -> Found:
    """The offenders among the transactions: the table must have one row for each accepted event, with its fields."""
    rows: Rows = case.evidence.stores[table_key(TRANSACTIONS)]
    wanted = {
        transaction_key(event["customer"], event["at_ms"], event["transaction_id"]): origin
        for origin, event in case.expected.accepted.items()
    }
    offenders = [f"missing: {key.decode()}" for key in wanted if key not in rows]
    offenders += [f"extra: {key.decode(errors='replace')}" for key in rows if key not in wanted]
    for key, origin in wanted.items():
        cells = {_field(column): cell for column, cell in rows.get(key, {}).items()}
        if key in rows and (wrong := least_wrong(case, origin, partial(differing_cells, cells))):
            offenders.append(f"wrong: {key.decode()}: {', '.join(wrong)}")
    return Found({"accepted": len(wanted), "rows": len(rows)}, offenders)


def customers(case: Case) -> Found:
    """Each customer's row has the largest amount, where the phone was at the last purchase, and the alerts."""
    rows: Rows = case.evidence.stores[table_key(CUSTOMERS)]
    accepted, copies = case.expected.accepted, case.copies
    highest: dict[str, int] = {}
    last: dict[str, Origin] = {}
    for origin, event in sorted(accepted.items(), key=lambda each: (each[1]["ingest_ms"], each[0])):
        customer = event["customer"]
        highest[customer] = max(event["amount_cents"], highest.get(customer, 0))
        if any(copy.get("phone_at_ms") is not None for copy in (event, *copies.get(origin, ()))):
            last[customer] = origin
    alerted: dict[str, set[bytes]] = {}
    for _, alert in case.alerts:
        alerted.setdefault(alert["subject"], set()).add(alert_column(alert["rule"], alert["alert_id"]))
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
    return Found({"customers": len(highest), "rows": len(rows)}, offenders)


def _field(column: bytes) -> str:
    return column.decode(errors="replace").removeprefix(f"{TRANSACTION}:")


def _phone(event: Event | None) -> list[Any]:
    """Where a phone was when an event was judged."""
    return [None if event is None else event.get(f"phone_{name}") for name in ("at_ms", "latitude", "longitude")]


def _shown(cell: bytes | None) -> list[Any]:
    """Where a phone is by its cell."""
    shown = json.loads(cell or b"{}")
    return [shown.get(name) for name in ("at_ms", "latitude", "longitude")]


TRANSACTIONS_CHECKER = Checker(
    table_key(TRANSACTIONS),
    "Does HBase hold every accepted event?",
    transactions,
    needs=(table_key(TRANSACTIONS),),
)
CUSTOMERS_CHECKER = Checker(
    table_key(CUSTOMERS),
    "Does HBase hold each customer's current state?",
    customers,
    needs=(table_key(CUSTOMERS), ALERTS.name),
)
