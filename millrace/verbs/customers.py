"""One customer, from the tables in HBase."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millrace.errors import InfraError
from millrace.patterns import load
from millrace.patterns.plan import table_of
from millrace.target import Target
from pipelines.fraud.tables import ALERTED, CUSTOMERS, HIGHEST_CENTS, PHONE, TRANSACTIONS, customer_prefix, event_of


@dataclass(frozen=True)
class Customer:
    """What the stores hold about one customer."""

    customer: str
    highest_cents: int | None
    phone: Mapping[str, Any] | None
    alerts: Mapping[str, int]
    transactions: list[dict[str, Any]]


def read(target: Target, pattern: str, customer: str, last: int) -> Customer:
    """A customer's state and latest transactions: one row and one short scan."""
    variant = load(pattern)
    row = target.hbase.row(table_of(pattern, CUSTOMERS), customer.encode())
    found = target.hbase.scan(table_of(pattern, TRANSACTIONS), row_prefix=customer_prefix(customer), limit=last)
    transactions = [event_of(variant.use.enriched, cells) for _, cells in found]
    if not row and not transactions:
        raise InfraError(f"{pattern} has no customer '{customer}'; see `millrace topics tail {pattern} enriched --all`")
    alerts = Counter(
        column.decode().split(":", 1)[1].split("|")[0] for column in row if column.startswith(f"{ALERTED}:".encode())
    )
    return Customer(
        customer,
        int(row[HIGHEST_CENTS]) if HIGHEST_CENTS in row else None,
        json.loads(row[PHONE]) if PHONE in row else None,
        dict(alerts),
        transactions,
    )
