"""`forget` removes a key from a pattern's tables, and its reference data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from millrace.deployments import alone
from millrace.errors import UsageError
from millrace.patterns import Variant, load
from millrace.patterns import topics as topics_of
from millrace.patterns.plan import HOP, table_of
from millrace.rules.layout import (
    MARK_FAMILIES,
    Mark,
    deletes,
    forgettable,
    mark_put,
    reached_by,
    search,
    value_of,
)
from millrace.rules.nearest import nearest
from millrace.rules.outputs import DISPOSITIONS, VERDICTS_TOPIC
from millrace.rules.tables import FORGOTTEN
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs.show import with_tables


@dataclass(frozen=True)
class Gone:
    """What was removed of a key."""

    field: str
    until_ms: int
    """What Kafka appended after it is kept."""
    rows: Mapping[str, int]
    """Table -> how many rows."""
    references: tuple[str, ...]
    """The compacted topics that got a tombstone."""
    kept: Mapping[str, str]
    """What still has the key -> until when."""


def forget(target: Target, name: str, key: str, *, field: str = "") -> Gone:
    """Remove the rows of a key from all tables, and its reference data; later events of the key are kept again.

    A mark of the key goes first: the persisting stage writes nothing more of what came before it, even if a batch is
    written again, and the verdict expects nothing of it.
    """
    variant = with_tables(load(name))
    field = named_field(variant, field)
    value = value_of(variant.use, field, key)
    hbase, use = target.hbase, variant.use
    with alone(target, name):
        marks = table_of(name, FORGOTTEN)
        hbase.ensure({marks: MARK_FAMILIES})
        before = hbase.forgotten(name).of(field, value)
        now = Mark(int(time.time() * 1000), before.times + 1)
        hbase.put(marks, *mark_put(field, str(value), now))
        rows = {}
        for table in use.tables:
            if field not in reached_by(table, use):
                continue
            bounds, is_of_key = search(table, field, value)
            found = [
                (row, cells) for row, cells in hbase.scan(table_of(name, table.name), **bounds) if is_of_key(row, cells)
            ]
            hbase.delete(name, (each for row, cells in found for each in deletes(table, row, cells, before, now)))
            rows[table.name] = len(found)
        references = references_of(variant, field)
        if references:
            topics.publish(target.bootstrap, ((variant.topic(each), str(value).encode(), None) for each in references))
    return Gone(field, now.until_ms, rows, references, kept(target, variant, field))


def rows_of(target: Target, name: str, key: str, *, field: str = "") -> list[str]:
    """What `forget` would remove, for a person to confirm."""
    variant = with_tables(load(name))
    field = named_field(variant, field)
    tables = [table_of(name, each.name) for each in variant.use.tables if field in reached_by(each, variant.use)]
    topics_ = [variant.topic(each) for each in references_of(variant, field)]
    return [f"the rows of {field} {key} in table {each}" for each in tables] + [
        f"the message of {field} {key} in topic {each}" for each in topics_
    ]


def kept(target: Target, variant: Variant, field: str) -> dict[str, str]:
    """What still has a key that was forgotten, and until when."""
    use, hours, references = variant.use, variant.pattern.retention_hours, references_of(variant, field)
    removed = f"until `millrace teardown {variant.name} --data` removes all of it"
    others = {each.name for each in use.references}
    carried = [topic for kind, topic in topics_of(variant).items() if kind not in others and kind != HOP]
    found = {
        f"the topics {', '.join(carried)}": removed if variant.is_finite else f"each message for about {hours} hours",
        "the state and the checkpoints of the jobs": removed,
    }
    if not variant.is_finite:  # a backfill has neither a ledger nor marks
        found[f"the topic {variant.topic(VERDICTS_TOPIC)} and the state of the ledger, if it names the key"] = removed
        found[f"the topic {variant.topic(DISPOSITIONS)}, if a note there names the key"] = removed
    found["the reports and records of verdicts, if an offender there is the key"] = "until their files are deleted"
    if references:
        named = ", ".join(map(variant.topic, references))
        compacted = f"until Kafka compacts it, after {hours} hours at the earliest"
        found[f"the old message in {named}"] = removed if variant.is_finite else compacted
    if "hdfs" in variant.stores:
        found[f"the Parquet files in {target.folder(variant)}"] = removed
    if totals := [table_of(variant.name, each.name) for each in use.tables if field not in reached_by(each, use)]:
        found[f"the values in rows of other keys in {', '.join(totals)}"] = "until those rows are removed"
    return found


def named_field(variant: Variant, field: str) -> str:
    """The field whose value is forgotten: the key of the topic, unless another begins the key of a table."""
    known = forgettable(variant.use)
    if field and field not in known:
        raise UsageError(f"no table of {variant.name} can forget by '{field}'; {nearest(field, sorted(known))}")
    return field or variant.use.judged.key


def references_of(variant: Variant, field: str) -> tuple[str, ...]:
    """The reference data with this key."""
    lookups = variant.use.enrichment.lookups
    return tuple(dict.fromkeys(each.reference.name for each in lookups if each.by == field))
