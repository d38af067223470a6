"""`show` reads the rows of one key from a pattern's tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from millrace.deployments import deployed_file
from millrace.errors import InfraError, UsageError
from millrace.patterns import Variant, readable
from millrace.patterns.plan import table_of
from millrace.rules import Table
from millrace.rules.layout import bounds, key_part, row_of, value_of
from millrace.target import Target

Row = dict[str, Any]


def show(target: Target, variant: Variant, table: Table, key: str, last: int) -> list[Row]:
    """The rows of a key in one table, at most `last`: events, or the key's state and its alerts by rule."""
    use = with_tables(variant).use
    scan = bounds(table, value_of(use, table.first, key))
    rows = target.hbase.scan(table_of(variant.name, table.name), limit=last, **scan)
    return [row_of(table, use, row, cells) for row, cells in rows]


def show_called(target: Target, variant: Variant, table: Table, key: str, last: int) -> Row:
    """All that the tables with the key of this table hold about it: its state, its alerts and its latest events."""
    use = with_tables(variant).use
    found = show(target, variant, table, key, 1) or [row_of(table, use, key_part(key), {})]
    others = [other for other in use.tables if other.columns and other.first == table.first]
    return found[0] | {each.name: show(target, variant, each, key, last) for each in others}


def require_found(is_found: bool, variant: Variant, what: str, key: str) -> None:
    """Refuse a key without rows."""
    if not is_found:
        raise InfraError(
            f"{variant.name} has no {what} '{key}'; see `millrace topics tail {variant.name} enriched --all`"
        )


def with_tables(variant: Variant) -> Variant:
    """The pattern, if it writes to HBase."""
    if not writes_tables(variant):
        raise UsageError(f"{variant.name} writes no tables; add hbase to its stages.persist.to, then deploy it")
    return variant


def deployed_last(target: Target, uses: Collection[str]) -> str:
    """The pattern of these uses that was deployed last, of those that write tables."""
    variants = [each for each in readable() if each.use.name in uses and writes_tables(each)]
    files = {each.name: deployed_file(target, each.name) for each in variants}
    deployed = {name: file.stat().st_mtime for name, file in files.items() if file.exists()}
    if not deployed:
        raise UsageError(f"no pattern of {' or '.join(uses)} is deployed; name one with --pattern: {', '.join(files)}")
    return max(deployed, key=deployed.__getitem__)


def writes_tables(variant: Variant) -> bool:
    """Whether the pattern persists to HBase."""
    return "hbase" in variant.stores
