"""What a use brings along, as plain data for whoever does not read Python: its kinds of topics and its tables."""

from __future__ import annotations

from typing import Any

from millrace.patterns.model import Variant, load_all
from millrace.patterns.plan import HOP, topics
from millrace.patterns.tables import CUSTOMERS, TRANSACTIONS, table_of, tables_of


def uses() -> dict[str, Any]:
    """Every use that a pattern runs, with its topics and tables by their names without the pattern's."""
    return {variant.use.name: _use(variant) for variant in load_all()}


def _use(variant: Variant) -> dict[str, Any]:
    references = {reference.name for reference in variant.use.references}
    families = tables_of(variant.name)
    return {
        # One partition each: the bare hop for latencies, and references, of which only the latest counts.
        "topics": {
            kind: {"compacted": kind in references, "single": kind in references or kind == HOP}
            for kind in topics(variant)
        },
        "tables": {table: families[table_of(variant.name, table)] for table in (TRANSACTIONS, CUSTOMERS)},
    }
