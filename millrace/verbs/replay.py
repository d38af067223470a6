"""`replay` judges stored events by the rules as declared now, and compares with the alerts that were written then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from millrace import deployments
from millrace.errors import UsageError
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.patterns import topics as topics_of
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.nearest import nearest
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs.stored import StoredError, read_stored, require_restorable
from millrace.verbs.validation import CLOCKS_DIFFER_MS, question_about
from millrace.verify import Bounds, Evidence, Question, Versions
from millrace.verify.case import Case
from millrace.verify.evidence import ENRICHED
from millrace.verify.replayed import Difference, differences

Report = Callable[[str], None]
TOPICS, FILES = "topics", "hdfs"
"""The pattern's own raw topics, and its own stored events."""


@dataclass(frozen=True)
class Replayed:
    """The events that were judged, and what each rule would change."""

    pattern: str
    events: int
    first_ms: int
    """When the first of them arrived."""
    last_ms: int
    rules: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether no alert would appear or disappear."""
        return all(each.is_none for each in self.rules)


def replay(
    target: Target, name: str, *, rule: str = "", source: str = TOPICS, report: Report = lambda line: None
) -> Replayed:
    """Judge all stored events of a pattern or a backfill; only one rule, if one is given."""
    variant = load(name)
    question = _question(variant)
    if rule and rule not in (known := [each.name for each in question.rules]):
        raise UsageError(f"{name} runs no rule '{rule}'; {nearest(rule, known)}")
    evidence = _evidence(target, variant, source, report)
    judged = evidence.raw[variant.use.judged.name] or ()
    if not judged:
        raise StoredError(f"{name}: there are no events to judge; send some, or name others with --from")
    report(f"{len(judged):,} events read; the oracle judges them")
    since_ms, notes = _since(variant, evidence)
    found = differences(Case(question, evidence), since_ms, [rule] if rule else ())
    versions = {
        each: version for plan in deployments.deployed(target, name).values() for each, version in plan.versions.items()
    }
    return Replayed(
        name,
        len(judged),
        min(record.ingest_ms for record in judged),
        max(record.ingest_ms for record in judged),
        tuple(replace(each, old=each.old or _deployed(versions, each.rule)) for each in found),
        notes,
    )


def _question(variant: Variant) -> Question:
    question = question_about(variant, Bounds(), {})
    # The flags of stored events are of the rules as they were: none is compared.
    now_ms = int(time.time() * 1000)
    return replace(
        question, in_force={rule.name: Versions(((None, now_ms + CLOCKS_DIFFER_MS),)) for rule in question.rules}
    )


def _deployed(versions: Mapping[str, str], rule: str) -> tuple[str, ...]:
    return (versions[rule],) if rule in versions else ()


def _evidence(target: Target, variant: Variant, source: str, report: Report) -> Evidence:
    """The events, and what the topics hold of their outputs."""
    use, topics = variant.use, topics_of(variant)
    inputs = [each.name for each in (*use.raw, *use.references)]
    is_topics = source == TOPICS
    outputs = (ALERTS.name, DEAD_LETTERS.name, *((use.enriched.name,) if is_topics else ()))
    wanted = {kind: topics[kind] for kind in ((*inputs, *outputs) if is_topics else outputs)}
    records: dict[str, list[Record]] = {kind: [] for kind in (*inputs, *outputs, use.enriched.name)}
    report(f"reading {', '.join(wanted.values())}")
    with closing(Tail(target.bootstrap, wanted)) as tail:
        for record in tail.new():
            records[record.topic].append(record)
        deleted = sorted(tail.deleted() - {each.name for each in use.references})
    if not is_topics:
        records[use.judged.name] = _stored(target, variant, source, report)
    return Evidence(
        raw={kind: records[kind] for kind in inputs},
        outputs={ENRICHED: records[use.enriched.name], **{kind: records[kind] for kind in outputs[:2]}},
        deleted=deleted,
        kinds={topic: kind for kind, topic in topics.items()},
    )


def _stored(target: Target, variant: Variant, source: str, report: Report) -> list[Record]:
    place = f"{target.hdfs_uri}{target.folder(variant)}" if source == FILES else source
    report(f"reading {place}")
    require_restorable(place, variant.use)
    stored = read_stored(target, variant.use, place)
    judged = variant.topic(variant.use.judged)
    if others := sorted(set(stored.table["source_topic"].unique().to_pylist()) - {judged}):
        raise StoredError(f"{place}: these are events of {others[0]}, not of {judged}; replay that pattern instead")
    return list(stored.records())


def _since(variant: Variant, evidence: Evidence) -> tuple[int, tuple[str, ...]]:
    """From when on everything is kept, so that alerts can be compared; with a note if that is not the beginning."""
    if not evidence.deleted:
        return 0, ()
    since_ms = int(time.time() * 1000) - variant.pattern.retention_hours * 3_600_000 + CLOCKS_DIFFER_MS
    gone: Sequence[str] = evidence.deleted
    note = f"the first messages of {', '.join(gone)} are deleted: what rules remember of them is missing"
    return since_ms, (f"{note}; only alerts of the last {variant.pattern.retention_hours} hours are compared",)
