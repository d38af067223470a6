"""The part of a pattern that one engine runs, as one JSON text; the topics and tables of a pattern."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from millrace import kept, registry
from millrace.patterns.loss import Loss
from millrace.patterns.model import AT_LEAST_ONCE, Variant
from millrace.registry import StateTopic
from millrace.rules import (
    ALERTS,
    DEAD_LETTERS,
    ENRICHMENT,
    LIMITS,
    EventRule,
    FoldRule,
    Lookup,
    UseCase,
    WindowRule,
    WindowSummary,
    limits_version,
    memories,
)
from millrace.rules.expressions import DeclarationError
from millrace.rules.layout import families, version
from millrace.rules.outputs import HOP, WINDOWS_TOPIC


class OtherRulesError(DeclarationError):
    """Declarations of other versions than those that were deployed."""


@dataclass(frozen=True)
class Stores:
    """Where the persisting stage writes."""

    hdfs: str
    """The folder of the pattern's Parquet, as a URI."""
    hbase_host: str
    hbase_port: int
    hbase_prefix: str


@dataclass(frozen=True)
class EnginePlan:
    """The stages of a pattern that one engine runs, with the addresses they need."""

    pattern: str
    generation: int
    engine: str
    use_name: str
    bootstrap: str
    topics: Mapping[str, str]
    """Event type's name -> topic."""
    checkpoints: str
    """Folder, as a URI, for the engine's own checkpoints; the next generation continues from them."""
    judges_events: bool = False
    """Whether the engine runs the per-event stage."""
    events: tuple[str, ...] = ()
    """Names of the per-event rules, when the engine runs that stage."""
    windows: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    persist: tuple[str, ...] = ()
    stores: Stores | None = None
    partitions: int = 1
    """Of the topics that it reads. A job lists partitions when it starts, so more of them make another plan."""
    parallelism: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    """The version of each rule and summary, and of the events' limits: a plan with other versions is another plan."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The version of each HBase table that it writes."""
    options: Mapping[str, str] = field(default_factory=dict)
    since: int = field(default=1, compare=False)
    """The generation that began without state: what earlier ones left is given up."""
    delivery: str = AT_LEAST_ONCE
    """The guarantee that the pattern promises for its outputs."""
    real_time: bool = False
    """Whether the per-event stage writes each event as it comes, on an engine that takes events in batches."""
    finite: bool = False
    """Whether the topics hold all that they ever will: once that is judged, all windows close and the job ends."""
    accepted: tuple[Loss, ...] = field(default=(), compare=False)
    """Losses that an operator accepted: a job that meets one of them continues behind it."""
    declared: str = field(default="", compare=False)
    """The copy of the declarations that it runs with; without one, those of the project."""
    code: str = field(default="", compare=False)
    """Identifies the kernel that it was last started with, where that was recorded."""

    def is_same_as(self, other: EnginePlan) -> bool:
        """Whether both describe the same job, whatever its generation."""
        return replace(self, generation=0) == replace(other, generation=0)

    @property
    def use(self) -> UseCase:
        return kept.use_of(self.declared, self.use_name)

    @property
    def event_rules(self) -> tuple[EventRule, ...]:
        return tuple(rule for name in self.events if isinstance(rule := self.use.rule(name), EventRule))

    @property
    def fold_rules(self) -> tuple[FoldRule, ...]:
        return tuple(rule for name in self.events if isinstance(rule := self.use.rule(name), FoldRule))

    @property
    def window_rules(self) -> tuple[WindowRule, ...]:
        return tuple(rule for name in self.windows if isinstance(rule := self.use.rule(name), WindowRule))

    @property
    def window_summaries(self) -> tuple[WindowSummary, ...]:
        return tuple(self.use.summary(name) for name in self.summaries)

    @property
    def memories(self) -> frozenset[str]:
        """The names under which its per-event stage keeps what it remembers of a key."""
        return (
            memories((*self.event_rules, *self.fold_rules), self.use.enrichment) if self.judges_events else frozenset()
        )

    @property
    def judges(self) -> tuple[str, ...]:
        """The rules and summaries that it holds state for."""
        return (*self.events, *self.windows, *self.summaries)

    @property
    def job_id(self) -> str:
        """32 hexadecimal digits, the same for the same pattern and generation: two submissions are one job."""
        return hashlib.md5(
            f"{self.pattern}/{self.engine}/{self.generation}".encode(), usedforsecurity=False
        ).hexdigest()

    def reference(self, lookup: Lookup) -> str:
        """A lookup as the kernel reads it: where its reference data is, and what it takes."""
        return json.dumps(
            {
                "reference": lookup.reference.name,
                "bootstrap": self.bootstrap,
                "topic": self.topics[lookup.reference.name],
                "key": lookup.reference.key,
                "event": json.dumps(lookup.reference.reader()),
                "take": dict(lookup.take),
            }
        )

    def refuse_other_rules(self) -> None:
        """Refuse to run with declarations of other versions than the plan's."""
        tables = {table.name: version(table, self.use) for table in self.use.tables}
        compared = [(name, wanted, _version(self.use, name)) for name, wanted in self.versions.items()]
        compared += [(name, wanted, tables.get(name)) for name, wanted in self.tables.items()]
        for name, wanted, found in compared:
            if found != wanted:
                raise OtherRulesError(
                    f"{self.pattern}: '{name}' is deployed in version {wanted} and declared "
                    f"{f'in version {found}' if found else 'no more'}; run `millrace deploy {self.pattern}`"
                )

    def to_json(self) -> str:
        content = asdict(self)
        usual = {"accepted": (), "tables": {}, "delivery": AT_LEAST_ONCE, "real_time": False, "finite": False}
        usual |= {"since": 1, "declared": "", "code": ""}
        for name, value in usual.items():
            if content[name] == value:
                del content[name]
        return json.dumps(content, sort_keys=True)

    @staticmethod
    def read(given: str) -> EnginePlan:
        """The plan in a job's argument: JSON, or @ and the name of a JSON file."""
        text = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
        plan = EnginePlan.from_json(text)
        plan.refuse_other_rules()
        return plan

    @staticmethod
    def from_json(text: str) -> EnginePlan:
        content: dict[str, Any] = json.loads(text)
        if content.get("stores"):
            content["stores"] = Stores(**content["stores"])
        for name in ("events", "windows", "summaries", "persist"):
            content[name] = tuple(content.get(name, ()))
        content.setdefault("judges_events", bool(content["events"]))  # older plans have it from their rules
        content["accepted"] = tuple(Loss(**each) for each in content.get("accepted", ()))
        return EnginePlan(**content)


def engine_plans(
    variant: Variant,
    generation: int,
    bootstrap: str,
    checkpoints: str,
    stores: Stores,
    options: Mapping[str, str] | None = None,
) -> list[EnginePlan]:
    """One plan for each engine that the variant uses, the per-event engine first."""
    stages = variant.pattern.stages
    return [
        EnginePlan(
            pattern=variant.name,
            generation=generation,
            engine=engine,
            use_name=variant.pattern.use,
            bootstrap=bootstrap,
            topics=topics(variant),
            checkpoints=f"{checkpoints}/{variant.name}/{engine}",
            judges_events=stages.events.engine == engine,
            events=stages.events.rules if stages.events.engine == engine else (),
            windows=stages.windowing.rules if stages.windowing.engine == engine else (),
            summaries=stages.windowing.summaries if stages.windowing.engine == engine else (),
            persist=stages.persist.to if stages.persist and stages.persist.engine == engine else (),
            stores=stores if stages.persist and stages.persist.engine == engine else None,
            partitions=variant.pattern.partitions,
            parallelism=stages.events.parallelism,
            versions=_versions(variant, engine),
            tables=_table_versions(variant, engine),
            options=options or {},
            delivery=variant.pattern.promises.delivery,
            real_time=stages.events.real_time and stages.events.engine == engine,
            finite=variant.is_finite,
        )
        for engine in variant.engines
    ]


def state_topics(plan: EnginePlan) -> dict[str, StateTopic]:
    """The topics in which the plan's engine keeps its state, by name."""
    stages = {"events": plan.judges_events, "windows": bool(plan.windows or plan.summaries)}
    declared = registry.manifest(plan.engine).state_topics
    return {each.name.format(pattern=plan.pattern): each for each in declared if stages[each.stage]}


def topic_kinds(use: UseCase) -> tuple[str, ...]:
    """The kinds of messages that the topics of a use's patterns carry."""
    carried = (*use.raw, *use.references, use.enriched, ALERTS, DEAD_LETTERS)
    return (*(each.name for each in carried), WINDOWS_TOPIC, HOP)


def topics(variant: Variant) -> dict[str, str]:
    """Kind of message -> topic of the variant."""
    return {kind: variant.topic(kind) for kind in topic_kinds(variant.use)}


def tables(variant: Variant) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """HBase table of the variant -> family -> its options."""
    return {table_of(variant.name, table.name): families(table) for table in variant.use.tables}


def table_of(pattern: str, table: str) -> str:
    """The name of a pattern's table."""
    return f"{pattern}.{table}"


def _table_versions(variant: Variant, engine: str) -> dict[str, str]:
    persist, use = variant.pattern.stages.persist, variant.use
    if persist is None or persist.engine != engine or "hbase" not in persist.to:
        return {}
    return {table.name: version(table, use) for table in use.tables}


def _versions(variant: Variant, engine: str) -> dict[str, str]:
    stages, names = variant.pattern.stages, [LIMITS]
    if stages.events.engine == engine:
        names += [*stages.events.rules, ENRICHMENT]
    if stages.windowing.engine == engine:
        names += [*stages.windowing.rules, *stages.windowing.summaries]
    return {name: found for name in names if (found := _version(variant.use, name))}


def _version(use: UseCase, name: str) -> str | None:
    """The version of a rule or a summary, of the limits or of the enrichment; None if the use has none of that name."""
    if name == LIMITS:
        return limits_version(use)
    if name == ENRICHMENT:
        return use.enrichment.version
    return next((each.version for each in (*use.rules, *use.summaries) if each.name == name), None)


__all__ = [
    "HOP",
    "WINDOWS_TOPIC",
    "EnginePlan",
    "Stores",
    "engine_plans",
    "state_topics",
    "table_of",
    "tables",
    "topic_kinds",
    "topics",
]
