"""What a use declares, as plain data for Terraform: its kinds of topics and its tables."""

from __future__ import annotations

from typing import Any

from millrace.patterns.plan import HOP, topic_kinds
from millrace.rules import UseCase


def use_data(use: UseCase) -> dict[str, Any]:
    """The topics and tables of a use, by their names without the pattern's."""
    references = {reference.name for reference in use.references}
    return {
        # One partition each: the bare hop for latencies, and references, of which only the latest message counts.
        "topics": {
            kind: {"compacted": kind in references, "single": kind in references or kind == HOP}
            for kind in topic_kinds(use)
        },
        "tables": {table: dict(families) for table, families in use.tables.items()},
    }
