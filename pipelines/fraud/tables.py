"""The HBase tables of the fraud use: names, families, row keys and cells.

Every write is idempotent. A cell whose timestamp is the value itself keeps the largest value, one whose timestamp is
the arrival of the fact keeps the latest, whatever the order and number of the writes. A deletion at HBase's "now" is
older than the latter and leaves it: to delete a customer, delete the row at 2**63 - 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from millrace.rules import EventType, Text

TRANSACTIONS, CUSTOMERS = "transactions", "customers"

TRANSACTION = "t"
"""One column for each field of the enriched event."""
STATE = "s"
"""`s:highest_cents`; `s:phone`: latitude, longitude and at_ms as JSON."""
ALERTED = "a"
"""One column `a:<rule>|<alert_id>` for each alert of the customer; its value is the alert's at_ms."""

HIGHEST_CENTS = f"{STATE}:highest_cents".encode()
PHONE = f"{STATE}:phone".encode()

_ONE_VERSION = {"max_versions": 1}
TABLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    TRANSACTIONS: {TRANSACTION: _ONE_VERSION},
    CUSTOMERS: {STATE: _ONE_VERSION, ALERTED: _ONE_VERSION},
}
"""Table -> family -> its options."""

_TIME_MOST = 2**63 - 1


def transaction_key(customer: str, at_ms: int, transaction_id: str) -> bytes:
    """The row key of a transaction: a customer's rows are adjacent, the latest first."""
    return f"{customer}|{_TIME_MOST - at_ms:019d}|{transaction_id}".encode()


def customer_prefix(customer: str) -> bytes:
    """The prefix of the row keys of a customer's transactions."""
    return f"{customer}|".encode()


def alert_column(rule: str, alert_id: str) -> bytes:
    """The column of one alert of a customer."""
    return f"{ALERTED}:{rule}|{alert_id}".encode()


def cells_of(event: Mapping[str, Any]) -> dict[bytes, bytes]:
    """The cells of an enriched event: texts as they are, other values as JSON, no cell for null."""
    return {
        f"{TRANSACTION}:{name}".encode(): (value if isinstance(value, str) else json.dumps(value)).encode()
        for name, value in event.items()
        if value is not None
    }


def event_of(event_type: EventType, cells: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The inverse of `cells_of`; a field without a cell is null."""
    texts = {f.name for f in event_type.fields if isinstance(f, Text)}
    event: dict[str, Any] = dict.fromkeys(f.name for f in event_type.fields)
    for column, value in cells.items():
        name = column.decode().partition(":")[2]
        event[name] = value.decode() if name in texts else json.loads(value)
    return event
