"""`provision` creates the topics, contracts, folders and tables that a pattern declares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from millrace.deployments import alone, is_wanted, jobs
from millrace.errors import InfraError
from millrace.patterns import Stores, Variant, engine_plans, load
from millrace.patterns import topics as topics_of
from millrace.patterns.contracts import breaking_changes, contracts_of
from millrace.patterns.plan import HOP, state_topics, tables
from millrace.rules.outputs import DISPOSITIONS, VERDICTS_TOPIC
from millrace.stores import topics
from millrace.stores.changes import Action, Change
from millrace.target import Target

SEGMENTS_KEPT = 24
"""Kafka deletes a segment once its newest message is too old: a slow topic would fill one for 7 days."""
MISSING_NAMED = 3


class ContractError(InfraError):
    """A change of a topic's contract that breaks its readers or its old messages."""


def provision(target: Target, name: str, *, plan: bool = False) -> list[Change]:
    """Create or change what differs from the pattern; with `plan` only list it."""
    variant = load(name)
    with alone(target, name):
        # A broken contract, or a store that does not answer, is found before anything is created.
        contracts = _ensure_contracts(target, variant, plan=True)
        stores = _ensure_stores(target, variant, plan=True)
        wanted = [replace(each, is_in_use=is_wanted(target, name)) for each in wanted_topics(variant)]
        changes = topics.ensure(target.bootstrap, wanted, plan=plan) + contracts + stores
        if not plan:
            _ensure_contracts(target, variant, plan=False)
            _ensure_stores(target, variant, plan=False)
        return changes


def require_provisioned(target: Target, variant: Variant) -> None:
    """Refuse a pattern that lacks a topic, or one without jobs as whose consumer group somebody else reads."""
    _refuse_missing(variant.name, topics.ensure(target.bootstrap, wanted_topics(variant), plan=True))
    name = variant.name
    if _is_silent(target, name) and (others := topics.members(target.bootstrap, name)):
        raise InfraError(
            f"{name}: the consumer group {name}, which is its jobs' own, is in use by {others[0]}; end that consumer, "
            "or give the pattern another name"
        )


def require_contracts_and_stores(target: Target, variant: Variant) -> None:
    """Refuse a pattern that would break a contract, or that lacks one, a folder or a table; it changes nothing."""
    contracts = _ensure_contracts(target, variant, plan=True)
    _refuse_missing(variant.name, contracts + _ensure_stores(target, variant, plan=True))


def _refuse_missing(name: str, changes: Iterable[Change]) -> None:
    if missing := [f"no {change.kind} {change.name}" for change in changes if change.action == "create"]:
        more = f" and {len(missing) - MISSING_NAMED} more" if len(missing) > MISSING_NAMED else ""
        named = f"{', '.join(missing[:MISSING_NAMED])}{more}"
        raise InfraError(f"{name} is not provisioned ({named}); run `millrace provision {name}` first")


def _is_silent(target: Target, name: str) -> bool:
    """Whether the pattern has no job in its group: a killed one of a deployed pattern stays a member for a while."""
    return not is_wanted(target, name) and not any(job.is_up for _, job in jobs(target, name).values())


def wanted_topics(variant: Variant) -> list[topics.Topic]:
    """The topics of a pattern, with their configuration."""
    use, pattern = variant.use, variant.pattern
    if variant.is_finite:
        return _finite_topics(variant)
    compacted = {event_type.name for event_type in use.references}
    # By time alone: a broker's limit in bytes would delete sooner than the pattern declares.
    retention_ms = str(pattern.retention_hours * 3_600_000)
    segment_ms = str(pattern.retention_hours * 3_600_000 // SEGMENTS_KEPT)
    keeps = {"retention.ms": retention_ms, "retention.bytes": "-1", "segment.ms": segment_ms}
    # Reference data stays as long as the messages judged by it: the verdict reads both.
    overwrites = topics.COMPACTED | {"min.compaction.lag.ms": retention_ms}
    carried = [
        topics.Topic(
            topic,
            1 if kind in compacted or kind == HOP else pattern.partitions,
            topics.APPEND_TIME | (overwrites if kind in compacted else keeps),
        )
        for kind, topic in topics_of(variant).items()
    ]
    verdicts = topics.Topic(variant.topic(VERDICTS_TOPIC), 1, topics.APPEND_TIME | topics.KEPT)
    dispositions = topics.Topic(variant.topic(DISPOSITIONS), 1, topics.APPEND_TIME | overwrites)
    return [*carried, verdicts, dispositions, *_state_topics(variant)]


def _state_topics(variant: Variant) -> list[topics.Topic]:
    """The topics in which the engines of a pattern keep their state, as many partitions as those that they read."""
    return [
        topics.Topic(name, variant.pattern.partitions, each.configs, is_state=True)
        for plan in engine_plans(variant, 1, "", "", Stores("", "", 0, ""))
        for name, each in state_topics(plan).items()
    ]


def _finite_topics(variant: Variant) -> list[topics.Topic]:
    """The topics of a backfill: inputs have the times of the events, and nothing is deleted by its age."""
    use = variant.use
    inputs = {each.name for each in (*use.raw, *use.references)}
    single = {HOP, *(each.name for each in use.references)}
    carried = [
        topics.Topic(
            topic,
            1 if kind in single else variant.pattern.partitions,
            topics.KEPT | (topics.CREATE_TIME if kind in inputs else topics.APPEND_TIME),
        )
        for kind, topic in topics_of(variant).items()
    ]
    return [*carried, *_state_topics(variant)]


def wanted_tables(variant: Variant) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The HBase tables of a pattern: those of its use, if it persists to HBase."""
    return tables(variant) if "hbase" in variant.stores else {}


def _ensure_stores(target: Target, variant: Variant, *, plan: bool) -> list[Change]:
    changes = [target.hdfs.ensure_folder(target.folder(variant), plan=plan)] if "hdfs" in variant.stores else []
    if wanted := wanted_tables(variant):
        changes += target.hbase.ensure(wanted, plan=plan)
    return changes


def _ensure_contracts(target: Target, variant: Variant, *, plan: bool) -> list[Change]:
    schemas = contracts_of(variant.use)
    if variant.is_finite:
        del schemas[VERDICTS_TOPIC], schemas[DISPOSITIONS.name]
    wanted = {variant.topic(kind): schema for kind, schema in schemas.items()}
    agreed = topics.contracts(target.bootstrap)
    changes, differing = [], {}
    for topic, schema in wanted.items():
        before = agreed.get(topic)
        if before is None or before != json.loads(json.dumps(schema)):
            breaks = breaking_changes(before, schema) if before else []
            if before and breaks:
                raise ContractError(
                    f"topic {topic}: its contract would break from version {before.get('version', 1)} to "
                    f"{schema.get('version', 1)}: {'; '.join(breaks)}. Its readers and its old messages follow the old "
                    f"one: give the pattern a new name, or remove it with its data (`millrace teardown {variant.name} "
                    "--data`) and provision it again"
                )
            differing[topic] = schema
        action: Action = "keep" if topic not in differing else "change" if before else "create"
        changes.append(Change("contract", topic, action))
    if differing and not plan:
        topics.keep_contracts(target.bootstrap, differing)
    return changes
