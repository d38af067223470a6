"""Rules, declared once without naming an engine: what is remembered or counted, and the condition that alerts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from millrace.rules.canaries import Canaries
from millrace.rules.containers import require_mappings, require_tuples
from millrace.rules.events import (
    GROWTH_MOST,
    SHOWN_BYTES_MOST,
    SPAN_MOST_MS,
    EventField,
    EventType,
    Real,
    Text,
    Whole,
    alike,
    is_whole,
    require_apart,
    whole_from,
)
from millrace.rules.expressions import Expression, Field, Kind, RuleError, condition, fields_of
from millrace.rules.measures import (
    Count,
    Last,
    Measure,
    as_data,
    conditions_of,
    outputs,
    require_remembered,
    require_windowed,
    text_of,
    texts_shown,
)
from millrace.rules.names import Names, event_names
from millrace.rules.nearest import nearest
from millrace.rules.outputs import (
    ALERTS,
    DEAD_LETTERS,
    DISPOSITIONS,
    FLAGS,
    HOP,
    PROVENANCE,
    REHEARSAL,
    SEPARATOR,
    VERDICTS_TOPIC,
    WINDOW_SPAN,
    WINDOWS_TOPIC,
    operand_name,
    window_result,
)
from millrace.rules.places import placed
from millrace.rules.sentences import measure_phrase, named, phrased, values_shown, window_phrase
from millrace.rules.tables import Table, require_tables
from millrace.rules.traffic import Traffic
from millrace.rules.windows import Sliding, Tumbling, Window

EventCondition = Callable[[Any, Any], Any]
WindowCondition = Callable[[Any], Any]


class _Conditioned:
    """A rule with a condition, in words."""

    condition: Expression

    def expression(self) -> str:
        """The rule as one expression."""
        return str(self.condition)

    def explained(self, operands: Mapping[str, str | None]) -> str:
        """Why an alert with these operands was raised."""
        return phrased(self.condition, self._phrases(), values_shown(operands))

    def _phrases(self) -> dict[tuple[str, str], str]:
        """How each operand is called, by the name that the condition has for it."""
        raise NotImplementedError


@dataclass(frozen=True)
class EventRule(_Conditioned):
    """Judges each event by its own fields and by measures over its key's earlier events."""

    name: str
    doc: str
    on: EventType
    alert_when: EventCondition = field(repr=False, compare=False)
    remembers: Mapping[str, Measure] = field(default_factory=dict)
    condition: Expression = field(init=False, compare=False)

    def __post_init__(self) -> None:
        of = f"rule '{self.name}'"
        with placed(of):
            _require_key(self.key, self.on, of)
            before = _before(self.remembers, self.on, of)
        with placed(of, self.alert_when):
            built = condition(self.alert_when(event_names(self.on, of), before), of)
            _require_own_names({str(read): operand_name(read) for read in fields_of(built)}, "of its alerts")
        object.__setattr__(self, "condition", built)

    @property
    def key(self) -> str:
        """Rules that judge events share the key of their topic, and so the order of arrival."""
        return self.on.key

    @cached_property
    def operands(self) -> tuple[Field, ...]:
        """The values that an alert shows: all that the condition reads."""
        return fields_of(self.condition)

    @cached_property
    def version(self) -> str:
        return fingerprint(self)

    def sentence(self) -> str:
        """The rule as one sentence."""
        return f"Alert when {phrased(self.condition, self._phrases())}."

    def _phrases(self) -> dict[tuple[str, str], str]:
        return {
            ("before", column): measure_phrase(column.removeprefix(f"{name}_"), measure, self.key)
            for name, measure in self.remembers.items()
            for column in outputs(name, measure, self.on)
        }


ENRICHMENT = "enrichment"
"""The name of a use's enrichment among the names of rules and summaries."""
LIMITS = "limits"
"""The name of the limits of its events among them: which messages are accepted, and which are late."""


IDS_MOST = 100
IDS_LIMIT = 10_000
TEXTS_BYTES_MOST = 1_000_000  # of an alert or a row together: it has to fit into a message of Kafka


@dataclass(frozen=True)
class WindowRule(_Conditioned):
    """Judges a completed window of a key's events; one alert for each window."""

    name: str
    doc: str
    on: EventType
    key: str
    window: Window
    measures: Mapping[str, Measure]
    alert_when: WindowCondition = field(repr=False, compare=False)
    ids_most: int = IDS_MOST
    """How many ids of its events an alert lists, the first in their order."""
    where: Mapping[str, Expression] = field(init=False, compare=False)
    """The conditions of its counts, by their names."""
    condition: Expression = field(init=False, compare=False)

    def __post_init__(self) -> None:
        of = f"rule '{self.name}'"
        with placed(of):
            _require_key(self.key, self.on, of)
            require_windowed(self.measures, self.on, of)
            if not is_whole(self.ids_most, 1, IDS_LIMIT):
                raise RuleError(f"ids_most must be {whole_from(1, IDS_LIMIT)}, not {self.ids_most!r}")
            for name in self.measures:
                if name in (self.key, *WINDOW_SPAN):
                    raise RuleError(f"'{name}' is a value of every alert of it; give the measure another name")
                if name in WINDOW_COLUMNS:
                    raise RuleError(
                        f"no measure can be called '{name}': an engine has a column of that name; rename it"
                    )
            require_apart((self.key, *WINDOW_SPAN, *self.measures))
            measured = Names("w", window_kinds(self.measures, self.on), of, {})
            object.__setattr__(self, "where", conditions_of(self.measures, self.on, of))
        with placed(of, self.alert_when):
            built = condition(self.alert_when(measured), of)
        object.__setattr__(self, "condition", built)

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of the values that an alert shows."""
        return (*self.measures, *WINDOW_SPAN)

    @cached_property
    def version(self) -> str:
        return fingerprint(self)

    def sentence(self) -> str:
        return f"Alert when in {self.window.phrase()} of one {self.key}, {phrased(self.condition, self._phrases())}."

    def _phrases(self) -> dict[tuple[str, str], str]:
        return {
            ("w", name): window_phrase(name, measure, self.where.get(name)) for name, measure in self.measures.items()
        }


@dataclass(frozen=True)
class WindowSummary:
    """Numbers for a chart: measures over each window of each key; never an alert."""

    name: str
    doc: str
    on: EventType
    keys: tuple[str, ...]
    """Fields of which each combination of values has its own numbers, null among them; without any, all events do."""
    window: Tumbling | Sliding
    measures: Mapping[str, Measure]
    where: Mapping[str, Expression] = field(init=False, compare=False)
    """The conditions of its counts, by their names."""

    def __post_init__(self) -> None:
        of = f"summary '{self.name}'"
        with placed(of):
            require_tuples(of, keys=self.keys)
            for key in self.keys:
                self.on.kind(key)
                if self.keys.count(key) > 1 or key in window_result({}):
                    raise RuleError(f"'{key}' is a column already; take this key out, or rename the field")
            require_windowed(self.measures, self.on, of)
            if not self.measures:
                raise RuleError('it has no measures; give it one, such as measures={"n": Count()}')
            object.__setattr__(self, "where", conditions_of(self.measures, self.on, of))
            if not isinstance(self.window, Tumbling | Sliding):
                raise RuleError(f"its window is {type(self.window).__name__}; choose Tumbling or Sliding")
            taken = [*self.keys, *window_result({})]
            for name in window_kinds(self.measures, self.on):
                if name in taken:
                    raise RuleError(f"'{name}' is a column already; give the measure another name")
            require_apart((*taken, *self.measures))

    @property
    def columns(self) -> dict[str, Kind]:
        """The columns of its results, with their kinds."""
        keys = {key: self.on.kind(key) for key in self.keys}
        return window_result(keys | window_kinds(self.measures, self.on))

    @cached_property
    def version(self) -> str:
        return fingerprint(self)


@dataclass(frozen=True)
class FoldRule:
    """The escape hatch: a step in plain Python, for what measures cannot express; slower by an order of magnitude.

    `step(state, event, stream)` gives the next state and the operands of an alert, or None; state is plain JSON data.
    """

    name: str
    doc: str
    on: EventType
    step: Callable[[Any, Mapping[str, Any], str], tuple[Any, Mapping[str, Any] | None]] = field(repr=False)
    version: str
    also: tuple[EventType, ...] = ()

    def __post_init__(self) -> None:
        of = f"rule '{self.name}'"
        with placed(of):
            require_tuples(of, also=self.also)
            if not isinstance(self.version, str):
                raise RuleError(f'its version {self.version!r} is no text; write version="{self.version}"')
            if "<" in getattr(self.step, "__qualname__", "<"):
                raise RuleError(
                    "no worker can load its step, which has no name in a module; define it with `def` at the top of one"
                )
            if SEPARATOR in self.version:
                raise RuleError(
                    f"its version '{self.version}' holds '{SEPARATOR}', which separates the parts of an "
                    "alert's id; take it out"
                )

    @property
    def key(self) -> str:
        return self.on.key

    @property
    def state(self) -> str:
        """The name of its state. Another version may keep another one, so it starts without."""
        return f"{self.name} {self.version}"

    def expression(self) -> str:
        return f"{self.step.__module__}.{self.step.__qualname__}"

    def sentence(self) -> str:
        return self.doc

    def explained(self, operands: Mapping[str, str | None]) -> str:
        """The operands that the step returned with an alert."""
        return ", ".join(named(name, value) for name, value in operands.items())


Rule = EventRule | WindowRule | FoldRule


def memories(rules: Iterable[Rule], enrichment: Enrichment | None) -> frozenset[str]:
    """The names under which a key's memory is kept: signatures of measures, and states of steps."""
    found = set(_signatures(enrichment.remembers, enrichment.on).values()) if enrichment else set()
    for rule in rules:
        if isinstance(rule, FoldRule):
            found.add(rule.state)
        elif isinstance(rule, EventRule):
            found |= set(_signatures(rule.remembers, rule.on).values())
    return frozenset(found)


def read_by_windows(rules: Sequence[WindowRule], summaries: Sequence[WindowSummary]) -> list[str]:
    """The fields of an enriched event that windows, their alerts and their rows read."""
    found: list[str] = []
    for rule in rules:
        found += [rule.key, rule.on.key, rule.on.time or "", rule.on.id or "", *_measured_of(rule), "sent_ms"]
    for summary in summaries:
        found += [*summary.keys, summary.on.time or "", *_measured_of(summary)]
    on = [*(rule.on for rule in rules), *(summary.on for summary in summaries)]
    there = {name for each in on for name in each.names}
    return [name for name in dict.fromkeys(found) if name in there]


def read_by_measure(of: WindowRule | WindowSummary, name: str) -> set[str]:
    """The fields of an event that a measure of a window reads."""
    where = of.where.get(name)
    return {*_measured(of.measures[name]), *(each.name for each in (fields_of(where) if where is not None else ()))}


def _measured_of(of: WindowRule | WindowSummary) -> Iterator[str]:
    """The fields that the measures of a window read."""
    for measure in of.measures.values():
        yield from _measured(measure)
    for where in of.where.values():
        yield from (each.name for each in fields_of(where))


def _measured(measure: Measure) -> Sequence[str]:
    if isinstance(measure, Last):
        return measure.fields
    return () if isinstance(measure, Count) else (measure.field,)


@dataclass(frozen=True)
class Lookup:
    """Fields taken from reference data; an event whose key is not in the reference is refused."""

    reference: EventType
    by: str
    take: Mapping[str, str]
    """New name -> field of the reference."""

    def __post_init__(self) -> None:
        of = f"lookup of '{self.reference.name}'"
        with placed(of):
            require_mappings(of, '{"NEW_NAME": "FIELD"}', take=self.take)


@dataclass(frozen=True)
class Enrichment:
    """The fields that the per-event stage adds to every accepted event."""

    on: EventType
    lookups: tuple[Lookup, ...] = ()
    remembers: Mapping[str, Measure] = field(default_factory=dict)
    adds: Mapping[str, EventCondition] = field(default_factory=dict, repr=False)
    built: Mapping[str, Expression] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        of = f"enrichment of '{self.on.name}'"
        with placed(of):
            require_tuples(of, lookups=self.lookups)
            require_mappings(of, '{"NEW_NAME": lambda now, before: ...}', adds=self.adds)
            before = _before(self.remembers, self.on, of)
            for lookup in self.lookups:
                self.on.kind(lookup.by)
                for source in lookup.take.values():
                    lookup.reference.kind(source)
        built = {}
        for name, make in self.adds.items():
            with placed(of, make):
                built[name] = made = make(event_names(self.on, of), before)
                if not isinstance(made, Expression) or made.kind not in ("whole", "real"):
                    raise RuleError(f"'{name}' must be a number made of fields, not {made}")
        object.__setattr__(self, "built", built)
        names = [*self.on.names, *built, *(new for lookup in self.lookups for new in lookup.take)]
        with placed(of):
            for name in names:
                if names.count(name) > 1:
                    raise RuleError(f"'{name}' is there already; give what the enrichment adds another name")

    @cached_property
    def version(self) -> str:
        return fingerprint(self)

    @property
    def names(self) -> frozenset[str]:
        """The fields that it adds."""
        return frozenset(self.built).union(*(lookup.take for lookup in self.lookups))

    def enriched(self, name: str, doc: str) -> EventType:
        """The event type of the intermediate topic: the event, the added fields, its flags and its raw message."""
        return EventType(
            name=name,
            doc=doc,
            fields=(
                *self.on.fields,
                *(_renamed(lookup, new, old) for lookup in self.lookups for new, old in lookup.take.items()),
                *(_column(new, expression) for new, expression in self.built.items()),
                FLAGS,
                *PROVENANCE,
            ),
            key=self.on.key,
            id=self.on.id,
            time=self.on.time,
        )


@dataclass(frozen=True)
class UseCase:
    """The streams of a use, and the rules and summaries that its patterns choose from by name."""

    name: str
    judged: EventType
    enrichment: Enrichment
    enriched: EventType
    others: tuple[EventType, ...] = ()
    references: tuple[EventType, ...] = ()
    rules: tuple[Rule, ...] = ()
    summaries: tuple[WindowSummary, ...] = ()
    disorder_ms: int = 5_000
    """How far behind the newest event one may come and still be counted in its windows; what comes later is late."""
    tables: tuple[Table, ...] = ()
    """The HBase tables of a pattern that persists there."""
    traffic: Traffic | None = None
    """Without it, `millrace traffic` only replays files."""
    canaries: Canaries | None = None
    """Without them, nothing shows that a rule without alerts is alive."""

    def __post_init__(self) -> None:
        of = f"use '{self.name}'"
        require_tuples(of, others=self.others, references=self.references, rules=self.rules)
        require_tuples(of, summaries=self.summaries, tables=self.tables)
        for complaint in _misfits(self):
            raise RuleError(f"{of}: {complaint}")
        require_tables(self.tables, self.enriched, {rule.key for rule in self.rules})

    @property
    def raw(self) -> tuple[EventType, ...]:
        return (self.judged, *self.others)

    def is_canary(self, values: Mapping[str, Any]) -> bool:
        """Whether an event, or a row of a summary, is a canary's."""
        return self.canaries is not None and self.canaries.has(values)

    def is_of_canary(self, alert: Mapping[str, Any]) -> bool:
        """Whether an alert is a canary's."""
        return self.is_canary({self.judged.key: alert["subject"]})

    @property
    def counting_canaries(self) -> tuple[WindowSummary, ...]:
        """The summaries whose rows cannot be told from those of others: none of their keys has a mark."""
        return tuple(each for each in self.summaries if self.canaries and not {*each.keys} & {*self.canaries.marks})

    def rule(self, name: str) -> Rule:
        """The rule of that name."""
        found: Rule = _named(name, self.rules, f"use '{self.name}' has no rule")
        return found

    def table(self, name: str) -> Table:
        """The table of that name."""
        found: Table = _named(name, self.tables, f"use '{self.name}' has no table")
        return found

    def summary(self, name: str) -> WindowSummary:
        """The window summary of that name."""
        found: WindowSummary = _named(name, self.summaries, f"use '{self.name}' has no summary")
        return found


# The last two: the topic of contracts is of all patterns, and one engine has a sink of that name.
OWN_TOPICS = (
    *(ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC, VERDICTS_TOPIC, DISPOSITIONS.name, HOP, REHEARSAL),
    *("contracts", "dealt"),
)
# Beside these, one engine has a column and another one a table for each event type.
OWN_TABLES = (
    *("topic", "partition", "offset", "key", "value", "timestamp", "headers", "ingest_ms", "is_backlog", "stream"),
    *("reason", "event_key", "aside"),
    *("arrivals", "references", "looked_up", "remembered", "unfolded", "judged", "timed", "timely"),
)
WINDOW_COLUMNS = ("window_start", "window_end")
OWN_COLUMNS = ("rowtime", *WINDOW_COLUMNS, "window_time")


def _misfits(use: UseCase) -> Iterator[str]:
    """Why the parts of a use do not fit one another."""
    if use.judged.time is None:
        yield f"the events of '{use.judged.name}' have no time; give the event type a time"
    if not is_whole(use.disorder_ms, 0, SPAN_MOST_MS):
        yield f"disorder_ms must be {whole_from(0, SPAN_MOST_MS)}, not {use.disorder_ms}"
    if use.enrichment.on != use.judged:
        yield f"the enrichment is of '{use.enrichment.on.name}'; only '{use.judged.name}' is enriched"
    rules = [each.name for each in (*use.rules, *use.summaries)]
    for taken in (ENRICHMENT, LIMITS):
        if taken in rules:
            yield f"no rule or summary can be called '{taken}'; give it another name"
    streams = [each.name for each in (*use.raw, *use.references, use.enriched)]
    if not _is_name(use.name):
        yield "its name is on the command line and in files; use letters, digits and dashes, at most 64"
    for kind, names in (("rules and summaries", rules), ("event types", streams)):
        for name in names:
            if not _is_name(name):
                yield f"'{name}' cannot be in names of topics and in alerts; use letters, digits and dashes, at most 64"
            if names.count(name) > 1:
                yield f"{names.count(name)} {kind} are called '{name}'; rename one of them"
    for name in streams:
        if name in OWN_TOPICS:
            yield f"no event type can be called '{name}': every pattern has a topic of that name; rename it"
        if name.lower() in OWN_TABLES:
            yield f"no event type can be called '{name}': an engine has a column or a table of that name; rename it"
        if name.startswith("_"):
            yield f"no event type can be called '{name}': columns of engines begin with an underscore; rename it"
    if complaint := alike(streams):
        yield f"event types {complaint}"
    for name in use.enriched.names:
        if name in OWN_COLUMNS:
            of = use.enriched.name
            yield f"no field of '{of}' can be called '{name}': an engine has a column of that name; rename it"
    for lookup in use.enrichment.lookups:
        if lookup.reference not in use.references:
            yield f"the enrichment looks up '{lookup.reference.name}'; add it to the references"
    for each in use.raw:
        if each.compacted:
            yield f"'{each.name}' is compacted, and only references are; take compacted=True away, or refer to it"
    for each in (*use.raw, *use.references):
        for needed in (f for f in each.fields if f.name in (each.key, each.id, each.time) and not f.required):
            yield f"'{each.name}' needs '{needed.name}' in every event; take required=False away, or use another field"
        identifying = [each.key, each.id, *(lookup.by for lookup in use.enrichment.lookups if each is use.judged)]
        for declared in each.fields:
            if declared.name in identifying and not isinstance(declared, Text):
                yield (
                    f"'{declared.name}' of '{each.name}' is a key or an id, so it must be a text; "
                    f"Text('{declared.name}', takes_whole=True) takes whole numbers, too"
                )
            elif not isinstance(declared, EventField):
                yield (
                    f"'{declared.name}' of '{each.name}' is a {type(declared).__name__}, which only the pipeline "
                    "makes; leave the field out: those that are not declared are ignored"
                )
        if each.time is not None and each.past_ms == 0:
            yield f"'{each.name}' accepts no event that is a millisecond old; give it past_ms"
    shown = [use.judged, *(lookup.reference for lookup in use.enrichment.lookups), *use.others]
    if (together := sum(each.max_bytes for each in shown)) > SHOWN_BYTES_MOST:
        of = ", ".join(f"'{name}'" for name in dict.fromkeys(each.name for each in shown))
        yield (
            f"what is made of {of} may not fit into a message of Kafka; "
            f"their max_bytes are at most {SHOWN_BYTES_MOST} together, not {together}"
        )
    yield from _unread(use)
    longest = GROWTH_MOST * max(each.max_bytes for each in shown)  # a value is from one message
    for judge in (*use.rules, *use.summaries):
        if (most := sum(min(text.bytes_most, longest) for text in _texts(judge))) > TEXTS_BYTES_MOST:
            yield (
                f"what '{judge.name}' writes may not fit into a message of Kafka: its texts may have {most:,} bytes, "
                f"and {TEXTS_BYTES_MOST:,} fit; give their fields a smaller max_length, or list fewer ids with ids_most"
            )
    if use.canaries:
        yield from _unmarked(use, use.canaries)


def _texts(of: Rule | WindowSummary) -> list[Text]:
    """The fields of the texts in an alert or a row, as often as they are there; what a step returns is not declared."""
    on, names, measured = of.on, [of.on.key, of.on.key, of.on.id], dict[str, Text]()
    match of:
        case WindowSummary():
            names, measured = [*of.keys], texts_shown(of.measures, on)
        case WindowRule():
            names, measured = [of.key, on.key, *[on.id] * of.ids_most], texts_shown(of.measures, on)
        case EventRule():
            before = texts_shown(of.remembers, on)
            read = {each.name for each in of.operands if each.owner == "before"}
            names += [each.name for each in of.operands if each.owner == "now"]
            measured = {name: text for name, text in before.items() if name in read}
    declared = {each.name: each for each in on.fields if isinstance(each, Text)}
    return [*measured.values(), *(declared[name] for name in names if name in declared)]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) is not None


def _unmarked(use: UseCase, canaries: Canaries) -> Iterator[str]:
    """Why the canaries of a use cannot be told from others, and rules that they cannot set off."""
    if use.judged.key not in canaries.marks:
        yield f"its canaries have no mark in '{use.judged.key}', the key of '{use.judged.name}'; add it to the marks"
    for name, mark in canaries.marks.items():
        if name not in use.enriched.names:
            yield f"its canaries have a mark in '{name}'; '{use.enriched.name}' has no such field"
        if not mark:
            yield f"the mark of its canaries in '{name}' is empty: every value begins with it"
    for name in canaries.rules:
        if name not in {rule.name for rule in use.rules}:
            yield f"its canaries set off '{name}', which is no rule of the use"


def _unread(use: UseCase) -> Iterator[str]:
    """Rules on a stream that their stage does not read, and measures of one that the use does not declare."""
    remembering: list[tuple[str, Mapping[str, Measure]]] = [("the enrichment", use.enrichment.remembers)]
    for rule in use.rules:
        of = f"rule '{rule.name}'"
        if isinstance(rule, WindowRule):
            if rule.on != use.enriched:
                yield f"{of} is on '{rule.on.name}'; rules on windows read '{use.enriched.name}'"
        elif rule.on != use.judged:
            yield (
                f"{of} is on '{rule.on.name}'; rules on single events read '{use.judged.name}', without what the "
                "enrichment adds: only rules on windows read that"
            )
        elif isinstance(rule, EventRule):
            remembering.append((of, rule.remembers))
        elif isinstance(rule, FoldRule):
            for each in rule.also:
                if each not in use.raw:
                    yield f"{of} also reads '{each.name}'; add this event type to the others"
    for summary in use.summaries:
        if summary.on != use.enriched:
            yield f"summary '{summary.name}' is on '{summary.on.name}'; summaries read '{use.enriched.name}'"
    for of, measures in remembering:
        for measure in measures.values():
            if isinstance(measure, Last) and measure.stream is not None and measure.stream not in use.raw:
                yield f"{of} remembers the last of '{measure.stream.name}'; add this event type to the others"


def fingerprint(declared: EventRule | WindowRule | WindowSummary | Enrichment) -> str:
    """The version of a declaration: eight hexadecimal digits that change with anything that could change an outcome."""
    match declared:
        case EventRule(name=name, on=on):
            content: list[Any] = [name, on.name, _signatures(declared.remembers, on), declared.expression()]
        case Enrichment(on=on):
            looked_up = [(lookup.reference.name, lookup.by, dict(lookup.take)) for lookup in declared.lookups]
            built = {name: str(made) for name, made in declared.built.items()}
            content = [on.name, looked_up, _signatures(declared.remembers, on), built]
        case WindowRule(name=name, on=on):
            content = [name, on.name, declared.key, repr(declared.window), _counted(declared), declared.expression()]
            content += [declared.ids_most] if declared.ids_most != IDS_MOST else []
        case WindowSummary(name=name, on=on):
            content = [name, on.name, declared.keys, repr(declared.window), _counted(declared)]
    return _digest(content)


def limits_version(use: UseCase) -> str:
    """The version of all that decides which messages are accepted, which are repetitions, and which are late."""
    readers = [each.reader() for each in (*use.raw, *use.references)]
    return _digest([readers, use.judged.id, use.judged.remembered_ms, use.disorder_ms])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def _signatures(remembers: Mapping[str, Measure], on: EventType) -> dict[str, str]:
    return {name: as_data(name, measure, on)["signature"] for name, measure in remembers.items()}


def _counted(declared: WindowRule | WindowSummary) -> dict[str, str]:
    return {name: text_of(measure, declared.where.get(name)) for name, measure in declared.measures.items()}


def window_kinds(measures: Mapping[str, Measure], on: EventType) -> dict[str, Kind]:
    """The columns of a window's measures, with their kinds."""
    kinds: dict[str, Kind] = {}
    for name, measure in measures.items():
        kinds |= outputs(name, measure, on)
    return kinds


def _before(remembers: Mapping[str, Measure], on: EventType, of: str) -> Names:
    require_remembered(remembers, on, of)
    kinds: dict[str, Kind] = {}
    groups: dict[str, dict[str, Kind]] = {}
    for name, measure in remembers.items():
        if isinstance(measure, Last):
            groups[name] = {field: (measure.stream or on).kind(field) for field in measure.fields}
        else:
            kinds |= outputs(name, measure, on)
    columns = {f"before.{name}.{each}": f"{name}_{each}" for name, group in groups.items() for each in group}
    _require_own_names(columns | {f"before.{name}": name for name in kinds}, "of the memory")
    return Names("before", kinds, of, groups)


def _require_own_names(named: Mapping[str, str], of_what: str) -> None:
    """Refuse two values under one name, of which one would hide the other."""
    first: dict[str, str] = {}
    for value, name in named.items():
        if (other := first.setdefault(name, value)) != value:
            raise RuleError(f"{other} and {value} would both be the value '{name}' {of_what}; rename one of them")


def _require_key(key: str, on: EventType, of: str) -> None:
    """Refuse a key that an alert cannot carry."""
    on.kind(key)
    if not any(isinstance(field, Text) and field.required for field in on.fields if field.name == key):
        raise RuleError(f"{of}: its key is '{key}'; alerts need one that is a Text and required")


def _renamed(lookup: Lookup, new: str, old: str) -> Text | Whole | Real:
    return replace(next(f for f in lookup.reference.readable if f.name == old), name=new)


def _column(name: str, expression: Expression) -> Text | Whole | Real:
    if expression.kind == "real":
        return Real(name, float("-1.7976931348623157e308"), float("1.7976931348623157e308"), required=False)
    return Whole(name, required=False)


def _named(name: str, among: tuple[Any, ...], complaint: str) -> Any:
    names = [each.name for each in among]
    if name not in names:
        raise RuleError(f"{complaint} '{name}'; {nearest(name, names)}")
    return among[names.index(name)]
