"""The self-test of a verdict: a good run is spoilt in every way that its declaration gives, and a check must notice.

The spoilings follow from the declaration: each column of each contract, each column, state and alert of each table.
A check that stops noticing, or a new column that nobody compares, shows up here by name.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

from millrace.oracle import Finding, Origin, Record, measured, window_findings
from millrace.patterns.loss import InFlight
from millrace.patterns.parquet import hour_of
from millrace.rules import ALERTS, DEAD_LETTERS, Count, Rule, Sum, Table, WindowRule, WindowSummary, alert_id
from millrace.rules.layout import ALERT, EVENT, alert_column, state_column
from millrace.rules.outputs import FLAGS, HOP, LATE, REPLAYED, SOURCE, WINDOW_SPAN, WINDOWS_TOPIC, names
from millrace.traffic.labels import Labels
from millrace.traffic.planned import KEYS, RULES, partition_of
from millrace.verify import timing
from millrace.verify.case import Case, Question, RowKey
from millrace.verify.checking import Checker
from millrace.verify.checks import checkers, partitions
from millrace.verify.checks.acknowledged import hops_of_no_run
from millrace.verify.checks.alert_ids import fact_of
from millrace.verify.checks.alerts import alternatives, is_from_before
from millrace.verify.checks.numbers import LATE_MOST, last_of, numbers
from millrace.verify.checks.order import Written, alerted
from millrace.verify.evidence import (
    ENRICHED,
    FILES,
    Event,
    Evidence,
    Messages,
    StoredRow,
    Versions,
    kinds_of,
    table_key,
)
from millrace.verify.judging import promises_of
from millrace.verify.marks import Mark, digest_of
from millrace.verify.verdict import Check

DAY_MS = 86_400_000
OUTPUTS = (ENRICHED, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
PROMISE = "promise: "
ABSURD = 1 << 60
"""More events than any window has."""
BEFORE_TIME_MS = -1
EARLIER_WINDOW = "alerts: one of an earlier version on a window"
FOREIGN, CARD_NUMBER = "foreign", "4111111111111111"
Spoilt = tuple[Question, Evidence]


@dataclass(frozen=True)
class Spoiling:
    """One way to spoil a run, and the checks that must notice it."""

    name: str
    checks: tuple[str, ...]
    spoilt: Callable[[], Spoilt]


@dataclass(frozen=True)
class Outcome:
    """The checks that noticed a spoiling, beside those that must."""

    name: str
    checks: tuple[str, ...]
    noticed: tuple[str, ...]

    @property
    def is_noticed(self) -> bool:
        """Whether each check that must notice it did."""
        return set(self.checks) <= set(self.noticed)


@dataclass(frozen=True)
class SelfTest:
    """The outcome of all spoilings of one run, or why it could not be spoilt."""

    pattern: str
    outcomes: tuple[Outcome, ...] = ()
    why: str = ""

    @property
    def missed(self) -> list[Outcome]:
        return [each for each in self.outcomes if not each.is_noticed]


def self_test(question: Question, evidence: Evidence, report: Callable[[str], None] = lambda line: None) -> SelfTest:
    """Spoil a run that is ok in every way; each must be noticed by the check that is there for it."""
    good = _Judged.of(Case(question, evidence))
    if not_ok := [f"{each.name} is {each.status}" for each in good.checks.values() if each.status != "ok"]:
        return SelfTest(question.pattern, why=f"only a run whose verdict is ok can be spoilt: {', '.join(not_ok)}")
    outcomes = []
    ways = list(spoilings(good.case))
    for number, each in enumerate(ways, 1):
        outcomes.append(Outcome(each.name, each.checks, good.noticed(*each.spoilt())))
        report(f"{number} of {len(ways)} spoilings: {each.name}")
    return SelfTest(question.pattern, tuple(outcomes))


@dataclass(frozen=True)
class _Judged:
    """A case with the results of its checks and promises."""

    case: Case
    checks: Mapping[str, Check]
    promises: Mapping[str, str]

    @classmethod
    def of(cls, case: Case) -> _Judged:
        return cls(case, {each.name: each.check(case) for each in checkers(case)}, _promises(case))

    def noticed(self, question: Question, evidence: Evidence) -> tuple[str, ...]:
        """The checks that are not ok, and the promises that are no longer kept, after a spoiling."""
        case = Case(question, evidence, like=self.case)
        there = {each.name: each for each in checkers(case)}
        found = [name for name, each in there.items() if not self._is_as_before(each, case) and not _is_ok(each, case)]
        if not self._has_same("alerts", case):
            found += [name for name, status in _promises(case).items() if status != self.promises[name]]
        return tuple(found)

    def _is_as_before(self, checker: Checker, case: Case) -> bool:
        """Whether nothing was spoilt that the check reads."""
        is_same = case.has_same_events(self.case) and case.unread == self.case.unread
        is_same &= case.evidence.labels is self.case.evidence.labels
        is_same &= case.evidence.unlabelled == self.case.evidence.unlabelled
        parts = (*checker.needs, *checker.reads)
        return is_same and bool(checker.needs) and all(self._has_same(part, case) for part in parts)

    def _has_same(self, part: str, case: Case) -> bool:
        return case.evidence.part(part) is self.case.evidence.part(part)


def _is_ok(checker: Checker, case: Case) -> bool:
    return checker.check(case).status == "ok"


def _promises(case: Case) -> dict[str, str]:
    latencies = tuple(timing.latencies(case))
    return {PROMISE + each.name: each.status for each in promises_of(case.question, latencies)}


def spoilings(case: Case) -> Iterator[Spoiling]:
    """Every way to spoil this run; a way that needs a message or row that the run lacks is left out."""
    yield from _of_inputs(case)
    yield from _of_enriched(case)
    for rule in case.question.rules:
        yield from _of_alerts(case, rule)
    yield from _of_all_alerts(case)
    yield from _of_heard(case)
    yield from _of_repetitions(case)
    yield from _of_letters(case)
    for summary in case.question.summaries:
        yield from _of_summary(case, summary)
        yield from _of_rows_with_late(case, summary)
        yield from _without_rows(case, summary)
    yield from _of_earlier_summaries(case)
    for kind in OUTPUTS:
        yield from _of_topic(case, kind)
    if FILES in case.evidence.stores:
        yield from _of_files(case)
    for table in case.question.use.tables:
        if table_key(table.name) in case.evidence.stores:
            yield from _of_table(case, table)
    yield from _of_restarts(case)
    yield from _of_partitions(case)
    yield from _of_labels(case)
    yield from _of_absence(case)


def _of_inputs(case: Case) -> Iterator[Spoiling]:
    """The raw topics: lost, reordered, delayed and foreign messages."""
    use, evidence = case.question.use, case.evidence
    kind = use.judged.name

    def with_raw(kind: str, records: Sequence[Record]) -> Spoilt:
        return case.question, replace(evidence, raw={**evidence.raw, kind: records})

    records = list(case.judged)
    accepted = [n for n, record in enumerate(records) if record.origin in case.expected.accepted]
    if len(accepted) > 1:
        at, other = _two(accepted, lambda n: records[n].value)
        swapped = _swapped(records, at, other, "value")
        yield Spoiling(f"{kind}: one is lost", ("conservation",), partial(with_raw, kind, _without(records, {at})))
        yield Spoiling(f"{kind}: two change places", ("enrichment",), partial(with_raw, kind, swapped))
        tail = {n for n in accepted if records[n].partition == records[at].partition}
        tail = set(sorted(tail)[-max(1, len(tail) // 5) :])
        yield Spoiling(
            f"{kind}: a partition's tail is cut", ("conservation",), partial(with_raw, kind, _without(records, tail))
        )
        late = [replace(each, ingest_ms=each.ingest_ms + DAY_MS // 144) for each in records]
        yield Spoiling(f"{kind}: a clock is ten minutes ahead", ("enrichment",), partial(with_raw, kind, late))
        last = max((each for each in records if each.partition == records[at].partition), key=lambda r: r.offset)
        garbage = replace(last, offset=last.offset + 1, value=b"{")
        yield Spoiling(f"{kind}: a foreign message", ("conservation",), partial(with_raw, kind, [*records, garbage]))
    for each in use.others:
        if any(_reads(case, each.name)):
            late = [replace(record, ingest_ms=record.ingest_ms + DAY_MS) for record in case.raw[each.name]]
            yield Spoiling(f"{each.name}: read a day late", ("enrichment",), partial(with_raw, each.name, late))
    for lookup in use.enrichment.lookups:
        reference = lookup.reference.name
        used = {event[lookup.by] for event in case.expected.accepted.values()}
        key = next((each.key for each in case.raw[reference] if _key(each) in used), None)
        if key is None:
            continue
        left = [record for record in case.raw[reference] if record.key != key]
        yield Spoiling(f"{reference}: one that is used is lost", ("refusals",), partial(with_raw, reference, left))
    yield from _of_references(case)
    for run in case.question.runs[:1]:
        for kind in run.by_topic.keys() & case.raw.keys():
            more = replace(run, by_topic={**run.by_topic, kind: run.by_topic[kind] + len(case.raw[kind]) + 1})
            yield Spoiling(
                f"{kind}: acknowledged and not there",
                ("acknowledged",),
                partial(_asked, replace(case.question, runs=(more, *case.question.runs[1:])), evidence),
            )
        ahead_ms = max(record.ingest_ms for record in records) + DAY_MS
        ways: dict[str, dict[str, Any]] = {"counts nothing": {"by_topic": {}}, "is of tomorrow": {"start_ms": ahead_ms}}
        if run.is_complete:
            ways["is emptied"] = {"sent": 0, "by_topic": {}, "content": "", "about": {}}
        if run.until_ms:
            ways["lasts a day longer"] = {"seconds": run.seconds + DAY_MS / 1_000, "content": ""}
        if closing := run.about.get(KEYS):
            ways["has one more partition"] = {"about": {**run.about, KEYS: [*closing, closing[0]]}}
        for name, changes in ways.items():
            other = replace(run, **changes)
            asked = replace(case.question, runs=(other, *case.question.runs[1:]))
            yield Spoiling(f"the record of a run {name}", ("acknowledged",), partial(_asked, asked, evidence))
    if evidence.read_ms and records and not case.question.is_finite:
        later = [replace(each, ingest_ms=max(each.ingest_ms, evidence.read_ms) + DAY_MS) for each in records]
        spoilt = partial(with_raw, use.judged.name, later)
        yield Spoiling(f"{use.judged.name}: dated a day ahead", ("acknowledged",), spoilt)
    if case.question.runs:
        missing = partial(_asked, replace(case.question, unrecorded=["line 1 is missing"]), evidence)
        yield Spoiling("the record of runs lacks a line", ("acknowledged", "labels"), missing)
        first, *others = case.question.runs
        if any(hops_of_no_run(others, evidence.hop_sent_ms)):
            is_placed = not others and evidence.partitions and partitions.unchanged(case)
            affected = ("acknowledged", "labels", *(["partitions"] if is_placed else []))
            removed = partial(_asked, replace(case.question, runs=others), evidence)
            yield Spoiling("the record of a run is removed", affected, removed)
        fewer = [replace(first, by_topic={**first.by_topic, HOP: 0}), *others]
        if any(hops_of_no_run(fewer, evidence.hop_sent_ms)):
            uncounted = partial(_asked, replace(case.question, runs=fewer), evidence)
            yield Spoiling("the record of a run counts no bare hop", ("acknowledged", "labels"), uncounted)
    if case.planned.compared == len(case.question.runs):
        for each in use.raw:
            own = list(case.raw[each.name])
            if own and len(own) == sum(run.by_topic.get(each.name, 0) for run in case.question.runs):
                at = len(own) // 2
                own[at] = replace(own[at], value=(own[at].value or b"") + b" ")
                yield Spoiling(
                    f"{each.name}: one is not as it was sent", ("acknowledged",), partial(with_raw, each.name, own)
                )
                keyed = next((n for n in _from_the_middle(range(len(own))) if own[n].key), None)
                count, there = evidence.partitions.get(each.name, 0), list(case.raw[each.name])
                if keyed is not None and count > 1 and {len(run.about[KEYS]) for run in case.question.runs} == {count}:
                    there[keyed] = replace(there[keyed], partition=(there[keyed].partition + 1) % count)
                    moved = partial(with_raw, each.name, there)
                    yield Spoiling(f"{each.name}: one is in another partition", ("acknowledged",), moved)
                    there = list(case.raw[each.name])
                    beside = [n for n, record in enumerate(there) if record.key and _is_beside(there[keyed], record)]
                    if beside:
                        turned = _swapped(_swapped(there, keyed, beside[0], "value"), keyed, beside[0], "key")
                        spoilt = partial(with_raw, each.name, turned)
                        yield Spoiling(f"{each.name}: two are in another order", ("acknowledged",), spoilt)


def _is_beside(one: Record, other: Record) -> bool:
    """Whether two messages of a topic are others, and in one partition."""
    return one.partition == other.partition and (one.key, one.value) != (other.key, other.value)


def _of_references(case: Case) -> Iterator[Spoiling]:
    """The reference data of the runs that can be made again, whether an event needs it or not."""
    for reference in dict.fromkeys(kind for kind, _ in case.planned.references):
        keys = [key for kind, key in case.planned.references if kind == reference]
        own, key = case.raw[reference], keys[len(keys) // 2]
        left = [record for record in own if record.key != key]
        moved = [replace(record, key=FOREIGN.encode()) if record.key == key else record for record in own]
        for name, records in (("lost", left), ("under another key", moved)):
            spoilt = replace(case.evidence, raw={**case.evidence.raw, reference: records})
            yield Spoiling(
                f"{reference}: one that a run sent is {name}",
                ("acknowledged",),
                partial(_asked, case.question, spoilt),
            )


def _key(record: Record) -> str:
    return (record.key or b"").decode(errors="replace")


def _reads(case: Case, stream: str) -> Iterator[bool]:
    """Whether what was enriched shows events of the other stream."""
    for name, measure in case.question.use.enrichment.remembers.items():
        if getattr(measure, "stream", None) is not None and measure.stream.name == stream:  # type: ignore[union-attr]
            columns = [f"{name}_{field}" for field in measure.fields]  # type: ignore[union-attr]
            yield any(event.get(column) is not None for event in case.expected.accepted.values() for column in columns)


def _of_enriched(case: Case) -> Iterator[Spoiling]:
    """The intermediate topic: each column altered, and events lost, swapped and repeated otherwise."""
    use, own = case.question.use, case.enriched
    if len(own) < 2:
        return
    changed = partial(_changed, case, ENRICHED)
    # Where there are copies, one of them may pass for the other.
    once = [n for n, (_, event) in enumerate(own) if len(case.copies[case.source(event)]) == 1] or range(len(own))
    kinds = kinds_of(use.enriched.fields)
    for name in use.enriched.names:
        at = next((n for n in _from_the_middle(once) if own[n][1].get(name) is not None), once[0])
        check = "conservation" if name in names(SOURCE) else "enrichment"
        yield Spoiling(
            f"{ENRICHED}: {name} is altered", (check,), partial(changed, at, partial(_alter, name, kinds[name]))
        )
    at, other = _two(range(len(own)), lambda n: own[n][1][use.enriched.key])
    records = [record for record, _ in own]
    same = {n for n, (_, event) in enumerate(own) if case.source(event) == case.source(own[at][1])}
    yield Spoiling(
        f"{ENRICHED}: one is lost", ("conservation",), partial(_with_output, case, ENRICHED, _without(records, same))
    )
    events = [(own[n][0], own[n][1].get(use.enriched.key), case.source(own[n][1])) for n in once]
    yield from _out_of_order(case, ENRICHED, events)
    yield from _long_after(case, [own[n] for n in once])
    half = {n for n, (_, event) in enumerate(own) if case.source(event)[1] == case.source(own[at][1])[1]}
    half = set(sorted(half)[len(half) // 2 :])
    yield Spoiling(
        f"{ENRICHED}: a partition falls silent",
        ("conservation",),
        partial(_with_output, case, ENRICHED, _without(records, half)),
    )
    for name, columns in (("keys", [use.enriched.key]), ("origins", list(names(SOURCE)))):
        if all(own[at][1][each] == own[other][1][each] for each in columns):
            continue
        yield Spoiling(
            f"{ENRICHED}: two swap their {name}",
            ("enrichment",),
            partial(_exchanged, case, ENRICHED, at, other, columns),
        )
    number = next((f.name for f in use.judged.readable if f.kind != "text" and own[at][1][f.name] is not None), None)
    if number:
        again = json.dumps({**own[at][1], number: _other(own[at][1][number], "whole")}).encode()
        yield Spoiling(
            f"{ENRICHED}: a copy differs",
            ("enrichment",),
            partial(_with_output, case, ENRICHED, _and(records, again)),
        )
    flagged = json.dumps({**own[at][1], FLAGS.name: [*(own[at][1].get(FLAGS.name) or ()), FOREIGN]}).encode()
    yield Spoiling(
        f"{ENRICHED}: a copy has other flags",
        ("enrichment",),
        partial(_with_output, case, ENRICHED, _and(records, flagged)),
    )


def _long_after(case: Case, once: Messages) -> Iterator[Spoiling]:
    """The first event of a partition a day late, where those of later messages show that it was due."""
    first: dict[tuple[str, int], tuple[Record, Origin]] = {}
    for record, origin in sorted(((record, case.source(event)) for record, event in once), key=itemgetter(1)):
        first.setdefault(origin[:2], (record, origin))
    out_ms = case.came_out_ms
    for place, (record, origin) in first.items():
        later_ms = [ms for other, ms in out_ms.items() if other[:2] == place and other > origin]
        if later_ms and max(later_ms) - min(later_ms) > case.question.bounds.idle_ms:
            late = replace(record, ingest_ms=max(out_ms.values()) + DAY_MS)
            records = [late if each is record else each for each, _ in case.enriched]
            yield Spoiling(
                f"{ENRICHED}: one is a day behind", ("order",), partial(_with_output, case, ENRICHED, records)
            )
            return


def _of_alerts(case: Case, rule: Rule) -> Iterator[Spoiling]:
    """One rule's alerts: each column and operand altered, and alerts lost and repeated under another id."""
    check, at = f"alerts: {rule.name}", _due(case, rule)
    if at is None:
        return
    changed, (_, alert) = partial(_changed, case, ALERTS.name, at), case.alerts[at]
    kinds = kinds_of(ALERTS.fields)
    identity = {"alert_id", "rule", "rule_version", "key", "window_start_ms"}
    for name in ALERTS.names:
        if name not in ("emit_ms", "operands"):
            noticed_by = "alert ids" if name in identity else check
            yield Spoiling(
                f"{check}: {name} is altered", (noticed_by,), partial(changed, partial(_alter, name, kinds[name]))
            )
    for name in ("window_start_ms", "sent_ms", "ingest_ms", "emit_ms"):
        if alert.get(name) is not None:
            noticed_by = "alert ids" if name in identity else check
            yield Spoiling(f"{check}: {name} is null", (noticed_by,), partial(changed, partial(_set, name, None)))
    early_ms, late_ms = alert["ingest_ms"] - DAY_MS, case.alerts[at][0].ingest_ms + DAY_MS
    for emit_ms, name in ((early_ms, "a day before its cause"), (late_ms, "a day after its topic had it")):
        yield Spoiling(f"{check}: emitted {name}", (check,), partial(changed, partial(_set, "emit_ms", emit_ms)))
    for name in alert["operands"]:
        yield Spoiling(f"{check}: operand {name} is altered", (check,), partial(changed, partial(_alter_in, name)))
        yield Spoiling(f"{check}: operand {name} is missing", (check,), partial(changed, partial(_drop_in, name)))
    yield Spoiling(f"{check}: a foreign operand", (check,), partial(changed, partial(_alter_in, FOREIGN)))
    records = [record for record, _ in case.alerts]
    copies = {n for n, (_, each) in enumerate(case.alerts) if each["alert_id"] == alert["alert_id"]}
    yield Spoiling(
        f"{check}: one is lost", (check,), partial(_with_output, case, ALERTS.name, _without(records, copies))
    )
    if isinstance(rule, WindowRule):
        never: dict[str, Any] = {"window_start_ms": BEFORE_TIME_MS}
        never["alert_id"] = alert_id(rule.name, rule.version, alert["key"], fact_of({**alert, **never}))
        invented = _and(records, json.dumps({**alert, **never}).encode())
        yield Spoiling(
            f"{check}: one on a window before 1970", (check,), partial(_with_output, case, ALERTS.name, invented)
        )
        yield from _a_day_late(case, rule)
        yield from _by_races(case, rule)
        yield from _held_back(case, rule)
    again = json.dumps({**alert, "alert_id": "0" * 32}).encode()
    yield Spoiling(
        f"{check}: repeated under another id",
        ("alert ids", check),
        partial(_with_output, case, ALERTS.name, _and(records, again)),
    )


def _due_now(case: Case, rule: WindowRule) -> dict[str, Finding]:
    """The alerts that must be there on windows which the present version of the rule judges."""
    must = alternatives(rule, case).must
    return {identity: each for identity, each in must.items() if not is_from_before(rule, case, each)}


def _by_races(case: Case, rule: WindowRule) -> Iterator[Spoiling]:
    """An alert on a window lost, with so few of its events called late that a race may explain it."""
    must = _due_now(case, rule)
    alerted = {alert["alert_id"] for _, alert in case.alerts} & must.keys()
    among = sorted({origin for identity in alerted for origin in must[identity].origins} - case.late)
    may_be_late = Case(*_called_late(case, among), like=case).raced_late
    most = int(case.races_most) - len(case.raced_late)
    for identity in sorted(alerted) if most > 0 else ():
        raced = [origin for origin in must[identity].origins if origin in may_be_late][:most]
        left = [case.accepted(origin) for origin in must[identity].origins if origin not in raced]
        if raced and not window_findings(rule, left):
            question, evidence = _called_late(case, raced)
            alerts = [record for record, alert in case.alerts if alert["alert_id"] != identity]
            lost = replace(evidence, outputs={**evidence.outputs, ALERTS.name: alerts})
            name = f"alerts: {rule.name}: one is lost, and its events are called late"
            yield Spoiling(name, (f"alerts: {rule.name}",), partial(_asked, question, lost))
            return


def _held_back(case: Case, rule: WindowRule) -> Iterator[Spoiling]:
    """An alert on a window lost, with its last events called late, which came out behind later ones."""
    must = _due_now(case, rule)
    alerted = {alert["alert_id"] for _, alert in case.alerts} & must.keys()
    for identity in sorted(alerted) if case.question.follows_enriched else ():
        events = [(origin, case.accepted(origin)) for origin in must[identity].origins]
        left = next(n for n in reversed(range(len(events))) if not window_findings(rule, [e for _, e in events[:n]]))
        held = [origin for origin, _ in events[left:]]
        if (enriched := _behind_later(case, held)) is not None:
            question, evidence = _called_late(case, held)
            alerts = [record for record, alert in case.alerts if alert["alert_id"] != identity]
            lost = replace(evidence, outputs={**evidence.outputs, ENRICHED: enriched, ALERTS.name: alerts})
            name = f"alerts: {rule.name}: one is lost, and its events came out late"
            yield Spoiling(name, (f"alerts: {rule.name}",), partial(_asked, question, lost))
            return


def _behind_later(case: Case, held: Sequence[Origin]) -> list[Record] | None:
    """The enriched events with some behind the first of their partition that makes them late; None if none does."""
    use, records = case.question.use, [record for record, _ in case.enriched]
    time, places = use.judged.time or "", {n for n, (_, each) in enumerate(case.enriched) if case.source(each) in held}
    partitions = {records[n].partition for n in places}
    own = sorted((n for n, each in enumerate(records) if each.partition in partitions), key=lambda n: records[n].offset)
    late_ms = max(case.accepted(origin)[time] for origin in held) + use.disorder_ms
    moments_ms = (min(case.enriched[n][1][time], case.enriched[n][1]["ingest_ms"]) for n in own)
    end = next((n for n, moment_ms in enumerate(moments_ms) if moment_ms > late_ms), None)
    if len(partitions) > 1 or len(places) > len(held) or end is None or own.index(max(places, key=own.index)) > end:
        return None
    passed = own[: end + 1]
    last, came = records[passed[-1]], [records[n] for n in passed if n not in places]
    came += [replace(records[n], ingest_ms=last.ingest_ms) for n in passed if n in places]
    for n, record in zip(passed, came, strict=True):
        records[n] = replace(record, offset=case.enriched[n][0].offset)
    return records


def _called_late(case: Case, origins: Iterable[Origin]) -> Spoilt:
    """The run with late dead letters of these events."""
    records = [record for record, _ in case.outputs[DEAD_LETTERS.name].events]
    following, letters = _and(records, b"")[-1], []
    for n, origin in enumerate(origins):
        place = {"topic": _topic_of(case, origin[0]), "partition": origin[1], "offset": origin[2]}
        late = {**place, "reason": LATE, "stage": "windows", "value_base64": None}
        late["ingest_ms"] = case.accepted(origin)["ingest_ms"]
        key, value = str(late[DEAD_LETTERS.key]).encode(), json.dumps(late).encode()
        letters.append(replace(following, offset=following.offset + n, key=key, value=value))
    return _with_output(case, DEAD_LETTERS.name, [*records, *letters])


def _a_day_late(case: Case, rule: WindowRule) -> Iterator[Spoiling]:
    """An alert on a window made and written a day late, where many on later windows show that it was due."""
    must = alternatives(rule, case).must
    own = [n for n, (_, alert) in enumerate(case.alerts) if alert["rule"] == rule.name and alert["alert_id"] in must]
    by_partition: dict[int, list[int]] = defaultdict(list)
    for n in own:
        by_partition[must[case.alerts[n][1]["alert_id"]].origins[-1][1]].append(n)
    for places in by_partition.values():
        came_ms = sorted(case.alerts[n][0].ingest_ms for n in places)
        first = min(
            places, key=lambda n: rule.window.end_ms(case.alerts[n][1]["window_start_ms"], case.alerts[n][1]["at_ms"])
        )
        identity = case.alerts[first][1]["alert_id"]
        if came_ms[-1] - came_ms[0] > 3 * case.question.bounds.idle_ms:
            records = [
                replace(
                    each,
                    ingest_ms=each.ingest_ms + DAY_MS,
                    value=json.dumps({**alert, "emit_ms": alert["emit_ms"] + DAY_MS}).encode(),
                )
                if alert["alert_id"] == identity
                else each
                for each, alert in case.alerts
            ]
            spoilt = partial(_with_output, case, ALERTS.name, records)
            yield Spoiling(f"alerts: {rule.name}: one is made a day late", (f"alerts: {rule.name}",), spoilt)
            return


def _out_of_order(case: Case, kind: str, outputs: Iterable[Written]) -> Iterator[Spoiling]:
    """Two outputs of one writer and partition change places, whose raw messages are in one partition, too."""
    records, known = [record for record, _ in case.outputs[kind].events], dict[tuple[Any, ...], tuple[Record, Origin]]()
    for record, writer, origin in outputs:
        place = writer, record.partition, *origin[:2]
        other, of_other = known.setdefault(place, (record, origin))
        if of_other != origin:
            pair = records.index(other), records.index(record)
            turned = _swapped(_swapped(records, *pair, "value"), *pair, "key")
            name = f"{kind}: two of one key change places"
            yield Spoiling(name, ("order",), partial(_with_output, case, kind, turned))
            return


def _of_heard(case: Case) -> Iterator[Spoiling]:
    """What a listener received: an alert that its topic lacks, and one that it had later."""
    known = dict(case.evidence.received_ms or {})
    for identity, at_ms in [*known.items()][:1] if not case.question.is_finite else ():
        for name, ms in {"is not there": {FOREIGN: at_ms}, "came a day later": {identity: at_ms - DAY_MS}}.items():
            evidence = replace(case.evidence, received_ms={**known, **ms})
            spoilt = partial(_asked, case.question, evidence)
            yield Spoiling(f"alerts: one that was received {name}", ("heard",), spoilt)


def _of_repetitions(case: Case) -> Iterator[Spoiling]:
    for kind in OUTPUTS if case.question.is_once else ():
        if events := case.outputs[kind].events:
            _, event = events[len(events) // 2]
            again = _and([each for each, _ in events], json.dumps(event).encode())
            yield Spoiling(f"{kind}: one is there twice", ("repetitions",), partial(_with_output, case, kind, again))
            if event.get("emit_ms") is not None:
                made = json.dumps({**event, "emit_ms": event["emit_ms"] + 1}).encode()
                again = _and([each for each, _ in events], made)
                spoilt = partial(_with_output, case, kind, again)
                yield Spoiling(f"{kind}: one is there twice, made anew", ("repetitions",), spoilt)


def _of_earlier_versions(case: Case) -> Iterator[Spoiling]:
    """An alert that an earlier version of a rule on single events did not raise."""
    found = next((each for each in case.alerts if each[1]["window_start_ms"] is None and each[1]["event_ids"]), None)
    if found is None:
        return
    rule, first_ms = found[1]["rule"], min(record.ingest_ms for record in case.judged)
    operands = found[1]["operands"]
    records = [record for record, _ in case.alerts]
    later_ms = max(record.ingest_ms for record in records) + DAY_MS
    then = Versions(((FOREIGN, first_ms),))
    for name, past, more in (
        ("that had ended", Versions(((FOREIGN, first_ms - DAY_MS),)), {}),
        ("that was replaced by another one", Versions(((FOREIGN, first_ms - DAY_MS), (None, later_ms))), {}),
        ("that replaced another one later", Versions(((None, later_ms), (FOREIGN, later_ms + DAY_MS))), {}),
        ("that had no such event", then, {"key": FOREIGN}),
        *(
            (f"whose {each} is of no event", then, {each: _other(found[1][each], "whole")})
            for each in ("subject", "at_ms", "ingest_ms", "sent_ms")
        ),
        *(
            (
                f"whose operand {each} is of no event",
                then,
                {"operands": {**operands, each: _other(operands[each], "text")}},
            )
            for each in operands.keys() & set(case.question.use.judged.names)
        ),
    ):
        versions = {**case.question.in_force, rule: past}
        asked = replace(case.question, in_force=versions)
        alert = {**found[1], "rule_version": FOREIGN, **more}
        alert["alert_id"] = alert_id(rule, FOREIGN, alert["key"], fact_of(alert))
        _, evidence = _with_output(case, ALERTS.name, _behind(records, found[0], json.dumps(alert).encode()))
        yield Spoiling(f"alerts: one of an earlier version {name}", ("alert ids",), partial(_asked, asked, evidence))
    later = Versions(((FOREIGN, later_ms),))
    asked = replace(case.question, in_force={**case.question.in_force, rule: later})
    yield Spoiling("alerts: their version began a day later", ("alert ids",), partial(_asked, asked, case.evidence))
    key, ids = found[1]["key"], found[1]["event_ids"]
    each = case.expected.judged.get((key, ids[0]))
    copies = case.copies.get(each.record.origin, ()) if each else ()
    if copies and all(rule in (copy.get(FLAGS.name) or ()) for copy in copies):
        same = (rule, key, ids)
        lost = {n for n, (_, a) in enumerate(case.alerts) if (a["rule"], a["key"], a["event_ids"]) == same}
        _, evidence = _with_output(case, ALERTS.name, _without(records, lost))
        yield Spoiling(
            "alerts: one of an earlier version is lost", ("earlier alerts",), partial(_asked, asked, evidence)
        )


def _of_earlier_windows(case: Case) -> Iterator[Spoiling]:
    """An alert on a window that an earlier version of its rule did not raise."""
    found = next((each for each in case.alerts if each[1]["window_start_ms"] is not None), None)
    if found is None:
        return
    rule, operands, identity = found[1]["rule"], found[1]["operands"], case.question.use.judged.id
    asked = replace(
        case.question, in_force={**case.question.in_force, rule: Versions(((FOREIGN, found[0].ingest_ms),))}
    )
    records, changes = [record for record, _ in case.alerts], dict[str, dict[str, Any]]()
    for name in ("subject", "at_ms", "ingest_ms", "sent_ms"):
        if found[1].get(name) is not None:
            changes[f"whose {name} is of no event"] = {name: _other(found[1][name], "whole")}
    for name in WINDOW_SPAN:
        changes[f"whose {name} is of no event"] = {"operands": {**operands, name: _other(operands[name], "text")}}
    if identity:
        changes["that names no event"] = {"event_ids": []}
        outside = (e for e in case.expected.accepted.values() if found[1]["key"] not in e.values())
        if (other := next(outside, None)) is not None:
            changes["that names an event of another key"] = {
                "event_ids": [*found[1]["event_ids"], str(other[identity])]
            }
    for name, change in changes.items():
        alert = {**found[1], "rule_version": FOREIGN, **change}
        alert["alert_id"] = alert_id(rule, FOREIGN, alert["key"], fact_of(alert))
        spoilt = _behind(records, found[0], json.dumps(alert).encode())
        _, evidence = _with_output(case, ALERTS.name, spoilt)
        yield Spoiling(f"{EARLIER_WINDOW} {name}", ("alert ids",), partial(_asked, asked, evidence))


def _of_all_alerts(case: Case) -> Iterator[Spoiling]:
    records = [record for record, _ in case.alerts]
    if not records:
        return
    at = len(records) // 2
    unknown = json.dumps({**case.alerts[at][1], "rule": FOREIGN}).encode()
    yield Spoiling(
        "alerts: one of an unknown rule",
        ("alert ids",),
        partial(_with_output, case, ALERTS.name, _and(records, unknown)),
    )
    copies = Counter(alert["alert_id"] for _, alert in case.alerts)
    once = [each for each in case.alerts if copies[each[1]["alert_id"]] == 1]
    yield from _out_of_order(case, ALERTS.name, alerted(case.question.use, case.enriched, once, case.source))
    yield from _of_earlier_versions(case)
    yield from _of_earlier_windows(case)
    for promise, status in _promises(case).items():
        if status == "kept":
            late = [replace(record, ingest_ms=record.ingest_ms + DAY_MS) for record in records]
            question, evidence = _with_output(case, ALERTS.name, late)
            unheard = replace(evidence, received_ms=None)
            yield Spoiling("alerts: a day late, and not received", (promise,), partial(_asked, question, unheard))
    other = next((n for n in range(len(records)) if case.alerts[n][1]["key"] != case.alerts[at][1]["key"]), None)
    if other is not None:
        swapped = partial(_exchanged, case, ALERTS.name, at, other, ["key"])
        yield Spoiling("alerts: two swap their keys", ("alert ids",), swapped)


def _of_letters(case: Case) -> Iterator[Spoiling]:
    """The dead letters: each column altered, and letters lost, foreign and invented."""
    use, kind = case.question.use, DEAD_LETTERS.name
    own = case.outputs[kind].events
    records = [record for record, _ in own]
    raw = {each.name for each in use.raw}
    chosen = [
        n
        for n, (_, letter) in enumerate(own)
        if letter["reason"] not in (LATE, REPLAYED) and case.evidence.kinds.get(letter["topic"], letter["topic"]) in raw
    ]
    kinds = kinds_of(DEAD_LETTERS.fields)
    copies = Counter(_place(letter) for _, letter in own)
    chosen = [n for n in chosen if copies[_place(own[n][1])] == 1] or chosen
    if chosen:
        for name in DEAD_LETTERS.names:
            at = next((n for n in chosen if own[n][1].get(name)), chosen[0])
            altered = partial(_changed, case, kind, at, partial(_alter, name, kinds[name]))
            yield Spoiling(f"{kind}: {name} is altered", ("refusals",), altered)
        (_, letter), at = own[chosen[0]], chosen[0]
        same = {n for n, (_, each) in enumerate(own) if _place(each) == _place(letter)}
        yield Spoiling(
            f"{kind}: one is lost", ("refusals",), partial(_with_output, case, kind, _without(records, same))
        )
        foreign = json.dumps({**letter, "topic": FOREIGN}).encode()
        yield Spoiling(
            f"{kind}: one of a foreign topic", ("refusals",), partial(_with_output, case, kind, _and(records, foreign))
        )
        mark = {**letter, "reason": REPLAYED, "stage": "replay", "value_base64": None}
        nowhere = Mark(letter["partition"], ABSURD, digest_of(b"", b"")).carried()
        for name, change in (
            ("of a foreign topic", {"topic": FOREIGN}),
            ("with a message", {"value_base64": "QUFB"}),
            ("that nobody sent", {"value_base64": nowhere}),
            ("that names no new message", {}),
        ):
            invented = json.dumps({**mark, **change}).encode()
            marked = partial(_with_output, case, kind, _and(records, invented))
            yield Spoiling(f"{kind}: a mark of a replay {name}", ("refusals",), marked)
    yield from _without_late(case, records)
    newest = max(case.expected.accepted.values(), key=lambda event: event["ingest_ms"], default=None)
    if newest is None:
        return
    place = {
        "topic": _topic_of(case, use.judged.name),
        "partition": newest["source_partition"],
        "offset": newest["source_offset"],
    }
    letter = {"ingest_ms": newest["ingest_ms"], "value_base64": None, **place}
    for name, reason, stage, check in (
        ("refused", "json", "events", "refusals"),
        ("late", LATE, "windows", "lateness"),
        ("replayed", REPLAYED, "replay", "refusals"),
    ):
        invented = json.dumps({**letter, "reason": reason, "stage": stage}).encode()
        yield Spoiling(
            f"{kind}: a good event is called {name}",
            (check,),
            partial(_with_output, case, kind, _and(records, invented)),
        )
    for each in use.references:
        if not (offsets := [record.offset for record in case.raw[each.name] if record.partition == 0]):
            continue
        for name, offset in (("behind the end", max(offsets) + 1), ("before the beginning", -1)):
            place = {"topic": _topic_of(case, each.name), "partition": 0, "offset": offset}
            invented = json.dumps({**letter, **place, "reason": "json", "stage": "events"}).encode()
            yield Spoiling(
                f"{kind}: one {name} of {each.name}",
                ("refusals",),
                partial(_with_output, case, kind, _and(records, invented)),
            )
    if len(many := _punctual(case)) > (most := case.races_most):
        for event in many[: int(2 * most) + 2]:
            place = {name: event[f"source_{name}"] for name in ("topic", "partition", "offset")}
            late = {**place, "ingest_ms": event["ingest_ms"], "reason": LATE, "stage": "windows", "value_base64": None}
            records = _and(records, json.dumps(late).encode())
        yield Spoiling(
            f"{kind}: many good events are called late", ("lateness",), partial(_with_output, case, kind, records)
        )


def _without_late(case: Case, records: Sequence[Record]) -> Iterator[Spoiling]:
    """The late dead letter lost of an event that is far behind all that came out before it, when that is known."""
    bounds, known_ms = case.question.bounds, 2 * case.question.bounds.overdue_ms
    began_ms = min((record.ingest_ms for record, _ in case.enriched), default=0)
    changed_ms = max([began_ms, *(each.since_ms for each in case.question.in_force.values())])
    for origin in sorted(case.late & case.expected.accepted.keys()):
        event, out_ms = case.expected.accepted[origin], case.came_out_ms.get(origin, 0)
        is_prompt = out_ms - event["ingest_ms"] <= bounds.idle_ms and out_ms > changed_ms + known_ms
        if is_prompt and case.surely_behind_ms[origin] > 2 * bounds.held_ms:
            own = case.outputs[DEAD_LETTERS.name].events
            same = {n for n, (_, each) in enumerate(own) if case.letter_origin(each) == origin}
            left = partial(_with_output, case, DEAD_LETTERS.name, _without(records, same))
            yield Spoiling(f"{DEAD_LETTERS.name}: one that is late is lost", ("lateness",), left)
            return


def _topic_of(case: Case, kind: str) -> str:
    """The topic of a kind of message."""
    return next((topic for topic, own in case.evidence.kinds.items() if own == kind), kind)


def _punctual(case: Case) -> list[Event]:
    """The accepted events that were not behind when they arrived, from the middle of the run."""
    time = case.question.use.judged.time or ""
    events = sorted(case.expected.accepted.values(), key=lambda event: event["ingest_ms"])
    behind_most_ms = case.question.use.disorder_ms
    return [event for event in events[len(events) // 3 :] if event["ingest_ms"] - event[time] <= behind_most_ms]


def _of_summary(case: Case, summary: WindowSummary) -> Iterator[Spoiling]:
    """The rows of one summary: each column altered, and rows lost and foreign."""
    check, kind = f"numbers: {summary.name}", WINDOWS_TOPIC
    identity, due = ("window_start_ms", *summary.keys), case.rows_of(summary).over
    # A window of late events alone may have a row, and has to have none.
    own = [
        (n, row)
        for n, (_, row) in enumerate(case.windows)
        if row["summary"] == summary.name and tuple(row.get(name) for name in identity) in due
    ]
    if not own or not numbers(summary, case).figures["due"]:
        return
    _, first = min(own, key=lambda each: each[1]["window_start_ms"])
    same = [n for n, row in own if all(row.get(name) == first.get(name) for name in identity)]
    # The last row of a window counts.
    last = last_of(case.windows[n] for n in same)
    at = next(n for n in same if case.windows[n] is last)
    for name in summary.columns:
        late_ms = case.windows[at][0].ingest_ms + DAY_MS
        altered = partial(_set, name, late_ms) if name == "emit_ms" else partial(_alter, name, summary.columns[name])
        noticed_by = "readable" if name == "summary" else check
        yield Spoiling(f"{check}: {name} is altered", (noticed_by,), partial(_changed, case, kind, at, altered))
    records = [record for record, _ in case.windows]
    lost = _without(records, set(same) if len(same) < len(records) else {at})
    yield Spoiling(f"{check}: one is lost", (check,), partial(_with_output, case, kind, lost))
    early = partial(_changed, case, kind, at, partial(_set, "emit_ms", first["window_start_ms"] - DAY_MS))
    yield Spoiling(f"{check}: emitted before its cause", (check,), early)
    yield from _of_rows(case, summary, at)


def _without_rows(case: Case, summary: WindowSummary) -> Iterator[Spoiling]:
    """All rows of a summary lost; once more as if it had just changed."""
    check, rows = f"numbers: {summary.name}", case.rows_of(summary)
    if rows.over:
        left = [record for record, row in case.windows if row["summary"] != summary.name]
        _, without = _with_output(case, WINDOWS_TOPIC, left)
        yield Spoiling(f"{check}: all rows are lost", (check,), partial(_asked, case.question, without))
        just_now = Versions(((FOREIGN, case.newest_ms + DAY_MS),))
        asked = replace(case.question, in_force={**case.question.in_force, summary.name: just_now})
        yield Spoiling(f"{check}: all rows are lost before a change", (check,), partial(_asked, asked, without))


def _of_earlier_summaries(case: Case) -> Iterator[Spoiling]:
    """A row that no earlier summary wrote: under the name of something else, after its end, or with a card number."""
    if not case.windows:
        return
    records = [record for record, _ in case.windows]
    written_ms, first_ms = records[-1].ingest_ms, min(record.ingest_ms for record in case.judged)
    for name, of, until_ms, more in (
        *((f"a row under the name of {rule.name}", rule.name, first_ms, {}) for rule in case.question.rules[:1]),
        ("a row of a summary that had ended", FOREIGN, written_ms - DAY_MS, {}),
        ("a row of an earlier summary holds a card number", FOREIGN, written_ms, {FOREIGN: CARD_NUMBER}),
    ):
        past = {**case.question.in_force, of: Versions(((FOREIGN, until_ms),))}
        row = json.dumps({"summary": of, "window_start_ms": 0, **more}).encode()
        _, evidence = _with_output(case, WINDOWS_TOPIC, _and(records, row))
        asked = replace(case.question, in_force=past)
        yield Spoiling(f"{WINDOWS_TOPIC}: {name}", ("readable",), partial(_asked, asked, evidence))


def _of_rows_with_late(case: Case, summary: WindowSummary) -> Iterator[Spoiling]:
    """The last row of a window with late events: it counts some of them, and nothing between."""
    check, of, since_ms = f"numbers: {summary.name}", case.rows_of(summary), case.versions(summary.name).since_ms
    rows: dict[RowKey, list[tuple[Record, Event]]] = defaultdict(list)
    for each in case.windows:
        if each[1]["summary"] == summary.name:
            rows[each[1]["window_start_ms"], *(each[1].get(name) for name in summary.keys)].append(each)
    last = (
        last_of(own)
        for key, own in rows.items()
        if 0 < len(of.late.get(key, ())) <= LATE_MOST and key[0] >= since_ms and key not in of.from_before
        if key in of.over or key not in of.still_open
    )
    at = next((case.windows.index(each) for each in last if each), None)
    for name, measure in summary.measures.items():
        if at is not None and isinstance(measure, Sum | Count):
            altered = partial(_changed, case, WINDOWS_TOPIC, at, partial(_alter, name, summary.columns[name]))
            yield Spoiling(f"{check}: {name} of a row with late events is altered", (check,), altered)


def _of_rows(case: Case, summary: WindowSummary, at: int) -> Iterator[Spoiling]:
    """The rows of one summary that are not the last of a window that is over; `at` is such a last row."""
    check, kind = f"numbers: {summary.name}", WINDOWS_TOPIC
    count = next((name for name, measure in summary.measures.items() if isinstance(measure, Count)), None)
    if count is None:
        return
    records = [record for record, _ in case.windows]
    last, row = case.windows[at]
    following = max(each.offset for each in records if each.partition == last.partition) + 1
    absurd = partial(_set, count, ABSURD)
    _, changed = _changed(case, kind, at, absurd)
    again = [*(changed.outputs[kind] or ()), replace(last, offset=following)]
    yield Spoiling(f"{check}: an earlier row is absurd", (check,), partial(_with_output, case, kind, again))
    if (found := _counting_fewer(case, summary, count)) is not None:
        again = [*records, *(replace(each, offset=following + n) for n, each in enumerate(found))]
        name = f"{check}: an earlier row counts fewer events, and sums all"
        yield Spoiling(name, (check,), partial(_with_output, case, kind, again))
    wrong = json.dumps({**row, count: ABSURD}).encode()
    behind = [*records, replace(last, offset=following, ingest_ms=last.ingest_ms - 1, value=wrong)]
    yield Spoiling(f"{check}: a wrong row is behind the right one", (check,), partial(_with_output, case, kind, behind))
    never = json.dumps({**row, "window_start_ms": BEFORE_TIME_MS}).encode()
    earlier = [*records, replace(last, offset=following, value=never)]
    yield Spoiling(f"{check}: a row of a window before 1970", (check,), partial(_with_output, case, kind, earlier))
    own = [n for n, (_, each) in enumerate(case.windows) if each["summary"] == summary.name]
    newest = max(own, key=lambda n: case.windows[n][1]["window_start_ms"])
    yield Spoiling(
        f"{check}: a row of the newest window is absurd", (check,), partial(_changed, case, kind, newest, absurd)
    )


def _counting_fewer(case: Case, summary: WindowSummary, count: str) -> tuple[Record, Record] | None:
    """A last row with one event fewer than its numbers are of, and the last row again."""
    sums = [name for name, measure in summary.measures.items() if isinstance(measure, Sum)]
    rows = {
        (row["window_start_ms"], *(row.get(name) for name in summary.keys)): each
        for each in case.windows
        if (row := each[1])["summary"] == summary.name
    }
    for key, parts in case.parts_of(summary).items():
        if len(parts) == 1 and key in rows:
            fewer, (record, row) = measured(summary, parts[0][:-1]), rows[key]
            if any(row[name] != fewer[name] for name in sums):
                return replace(record, value=json.dumps({**row, count: row[count] - 1}).encode()), record
    return None


def _of_topic(case: Case, kind: str) -> Iterator[Spoiling]:
    """Any output topic: messages that are foreign, or cut."""
    records = [record for record, _ in case.outputs[kind].events]
    if not records:
        return
    at = len(records) // 2
    for name, value in (("foreign", b'{"hello": "world"}'), ("no object", b"[1]"), ("empty", b"")):
        yield Spoiling(
            f"{kind}: a message is {name}", ("readable",), partial(_with_output, case, kind, _and(records, value))
        )
    cut = [*records]
    cut[at] = replace(cut[at], value=(cut[at].value or b"")[:-2])
    yield Spoiling(f"{kind}: a message is cut", ("readable",), partial(_with_output, case, kind, cut))
    keyed = [*records]
    keyed[at] = replace(keyed[at], key=FOREIGN.encode())
    yield Spoiling(f"{kind}: a message has a foreign key", ("readable",), partial(_with_output, case, kind, keyed))
    if read_ms := case.evidence.read_ms:
        ahead = [replace(each, ingest_ms=max(each.ingest_ms, read_ms) + DAY_MS) for each in records]
        yield Spoiling(f"{kind}: dated a day ahead", ("readable",), partial(_with_output, case, kind, ahead))
    if kind != WINDOWS_TOPIC:
        early = [replace(each, ingest_ms=each.ingest_ms - DAY_MS) for each in records]
        yield Spoiling(f"{kind}: dated a day back", ("readable",), partial(_with_output, case, kind, early))
    more = partial(_changed, case, kind, at, partial(_set, FOREIGN, CARD_NUMBER))
    yield Spoiling(f"{kind}: a field that is not declared", ("readable",), more)


def _of_files(case: Case) -> Iterator[Spoiling]:
    """The files: each column altered, and rows lost, repeated, swapped and foreign."""
    rows, key = list(case.evidence.stores[FILES]), case.question.use.enriched.key
    if len(rows) < 2:
        return

    def stored(rows: Sequence[Event]) -> Spoilt:
        return _with_store(case, FILES, rows)

    kinds = kinds_of(case.question.use.enriched.fields)
    for name in case.question.use.enriched.names:
        at = next((n for n, row in enumerate(rows) if row.get(name) is not None), 0)
        altered = {**rows[at], name: _other(rows[at].get(name), kinds[name])}
        yield Spoiling(f"{FILES}: {name} is altered", (FILES,), partial(stored, [*_without(rows, {at}), altered]))
        if rows[at].get(name) is not None:
            lacking = {each: value for each, value in rows[at].items() if each != name}
            yield Spoiling(f"{FILES}: {name} is missing", (FILES,), partial(stored, [*_without(rows, {at}), lacking]))
    at, other = _two(range(len(rows)), lambda n: rows[n][key])
    left = _without(rows, {at, other})
    swapped = [{**rows[at], key: rows[other][key]}, {**rows[other], key: rows[at][key]}]
    yield Spoiling(f"{FILES}: two rows swap their keys", (FILES,), partial(stored, [*left, *swapped]))
    more = [*_without(rows, {at}), {**rows[at], FOREIGN: CARD_NUMBER}]
    yield Spoiling(f"{FILES}: a column that is not declared", (FILES,), partial(stored, more))
    yield Spoiling(f"{FILES}: a column of a replaced file", (FILES,), partial(_with_replaced, case, more[-1:]))
    yield Spoiling(f"{FILES}: a row is lost", (FILES,), partial(stored, _without(rows, {at})))
    yield Spoiling(f"{FILES}: a row is there twice", (FILES,), partial(stored, [*rows, rows[at]]))
    yield Spoiling(f"{FILES}: a foreign row", (FILES,), partial(stored, [*rows, {"hello": "world"}]))
    elsewhere = StoredRow(rows[at], f"{hour_of(0)}/a.parquet")
    moved = [*_without(rows, {at}), elsewhere]
    yield Spoiling(f"{FILES}: a row in the folder of another hour", (FILES,), partial(stored, moved))
    yield Spoiling(f"{FILES}: half of it", (FILES,), partial(stored, rows[: len(rows) // 2]))


def _of_table(case: Case, table: Table) -> Iterator[Spoiling]:
    """One table: each of its cells altered and missing, and rows lost, swapped and foreign."""
    key = table_key(table.name)
    rows: Mapping[bytes, Mapping[bytes, bytes]] = case.evidence.stores[key]
    if len(rows) < 2:
        return

    def stored(changes: Mapping[bytes, Mapping[bytes, bytes] | None]) -> Spoilt:
        left = {row: cells for row, cells in {**rows, **changes}.items() if cells is not None}
        return _with_store(case, key, left)

    columns = [f"{EVENT}:{name}".encode() for name in table.columns_of(case.question.use.enriched)]
    columns = columns if table.columns else [state_column(name) for name in table.state]
    columns += list(_alerts_in(rows, case, table))[:1]
    for column in columns:
        row = next((row for row, cells in rows.items() if column in cells), None)
        if row is None:
            continue
        name = column.decode()
        altered = {**rows[row], column: _other(rows[row][column].decode(), "text").encode()}
        lacking = {each: cell for each, cell in rows[row].items() if each != column}
        yield Spoiling(f"{key}: {name} is altered", (key,), partial(stored, {row: altered}))
        if lacking:
            yield Spoiling(f"{key}: {name} is missing", (key,), partial(stored, {row: lacking}))
        if table.state and isinstance(value := json.loads(rows[row][column]), dict):
            more = {**rows[row], column: json.dumps({**value, FOREIGN: CARD_NUMBER}).encode()}
            yield Spoiling(f"{key}: {name} has one more member", (key,), partial(stored, {row: more}))
    row, other = _two(list(rows), lambda row: rows[row])
    yield Spoiling(f"{key}: two rows are swapped", (key,), partial(stored, {row: rows[other], other: rows[row]}))
    yield Spoiling(f"{key}: a row is lost", (key,), partial(stored, {row: None}))
    yield Spoiling(f"{key}: a foreign row", (key,), partial(stored, {b"\xff": rows[row]}))
    yield Spoiling(f"{key}: a foreign cell", (key,), partial(stored, {row: {**rows[row], b"s:foreign": b"1"}}))
    if table.alerts:
        foreign = alert_column(case.question.rules[0].name, "0" * 32)
        yield Spoiling(f"{key}: a foreign alert", (key,), partial(stored, {row: {**rows[row], foreign: b"1"}}))
    half = dict.fromkeys(list(rows)[len(rows) // 2 :])
    yield Spoiling(f"{key}: half of it", (key,), partial(stored, half))


def _alerts_in(rows: Mapping[bytes, Mapping[bytes, bytes]], case: Case, table: Table) -> Iterator[bytes]:
    for cells in rows.values() if table.alerts else ():
        yield from (column for column in cells if column.startswith(f"{ALERT}:".encode()))


def _of_restarts(case: Case) -> Iterator[Spoiling]:
    """At most once: a lost event, explained by a restart that must have lost a later one of its key as well."""
    use, judged = case.question.use, case.question.use.judged
    first: dict[tuple[int, str], Origin] = {}
    for origin, event in sorted(case.expected.accepted.items()) if case.question.is_at_most_once else ():
        lost = first.setdefault((origin[1], event[use.enriched.key]), origin)
        if lost == origin or lost not in case.copies or origin not in case.copies:
            continue
        end, at_ms = case.ends[judged.name, origin[1]], max(record.ingest_ms for record in case.judged)
        restart = InFlight(_topic_of(case, judged.name), origin[1], lost[2], end, at_ms)
        asked = replace(case.question, in_flight=(*case.question.in_flight, restart))
        lost_ids = {each.alert_id for each in case.expected.findings.values() if lost in each.origins}
        left = {
            ENRICHED: [record for record, event in case.enriched if case.source(event) != lost],
            ALERTS.name: [record for record, alert in case.alerts if alert["alert_id"] not in lost_ids],
        }
        evidence = replace(case.evidence, outputs={**case.evidence.outputs, **left})
        yield Spoiling("restarts: one explains a lost event", ("absences",), partial(_asked, asked, evidence))
        return


def _of_partitions(case: Case) -> Iterator[Spoiling]:
    for kind, records in partitions.unchanged(case).items():
        own, at, count = list(records), len(records) // 2, case.evidence.partitions[kind]
        if count > 1 and own[at].key:
            own[at] = replace(own[at], partition=(own[at].partition + 1) % count)
            moved = partial(_with_output, case, kind, own)
            yield Spoiling(f"{kind}: one is in another partition", ("partitions",), moved)
        if len(case.evidence.partitions) > 1:
            counts = {**case.evidence.partitions, kind: count + 1}
            spread = [replace(each, partition=partition_of(each.key or b"", count + 1)) for each in records]
            _, evidence = _with_output(case, kind, spread)
            added = partial(_asked, case.question, replace(evidence, partitions=counts))
            yield Spoiling(f"{kind}: spread over one more partition", ("partitions",), added)


def _of_labels(case: Case) -> Iterator[Spoiling]:
    made = case.evidence.labels
    if made is None:
        return
    own = {rule.name for rule in case.question.rules}  # traffic is labelled for the rules of other patterns, too
    rule = next((name for name, _ in made.meant if name in own), None)
    if rule:
        more = Labels({**made.meant, (rule, (FOREIGN, "1")): FOREIGN}, made.ambiguous, made.spans_ms)
        yield Spoiling(
            "labels: one without its alert", ("labels",), partial(_asked, case.question, _labelled(case, more))
        )
    why = replace(case.evidence, unlabelled=["a run's labels are unused"])
    yield Spoiling("labels: those of a run are unused", ("labels",), partial(_asked, case.question, why))
    if any("plan" in run.about for run in case.question.runs):
        none = partial(_asked, case.question, _labelled(case, Labels()))
        yield Spoiling("labels: emptied", ("labels",), none)
        if rule:
            of_others = partial(_asked, case.question, _labelled(case, _without_rule(made, rule)))
            yield Spoiling("labels: those of a rule are lost", ("labels",), of_others)
        yield Spoiling("labels: absent", ("labels",), partial(_asked, case.question, _labelled(case, None)))
    run = next((run for run in case.question.runs if "plan" in run.about and RULES in run.about), None)
    if rule and run:
        pinned = replace(run, about={**run.about, RULES: {**run.about[RULES], rule: FOREIGN}})
        asked = replace(case.question, runs=[pinned if each is run else each for each in case.question.runs])
        of_none = partial(_asked, asked, _labelled(case, made.without({rule})))
        yield Spoiling("labels: for a version that a rule never had", ("labels",), of_none)


def _without_rule(made: Labels, rule: str) -> Labels:
    """The labels without any trace of a rule."""
    return replace(made.without({rule}), of_other_versions=made.of_other_versions)


def _of_absence(case: Case) -> Iterator[Spoiling]:
    """Each input, output and store absent: every check that reads it is unknown."""
    evidence, all_of_them = case.evidence, list(checkers(case))
    for kind in case.raw:
        affected = tuple(each.name for each in all_of_them if each.needs_inputs)
        absent = replace(evidence, raw={**evidence.raw, kind: None})
        yield Spoiling(f"{kind}: absent", affected, partial(_asked, case.question, absent))
        gone = replace(evidence, deleted=[kind])
        yield Spoiling(f"{kind}: its beginning is deleted", affected, partial(_asked, case.question, gone))
    for part in dict.fromkeys(part for each in all_of_them for part in each.needs):
        affected = tuple(each.name for each in all_of_them if part in each.needs)
        is_output = part in evidence.outputs
        parts = evidence.outputs if is_output else evidence.stores
        left = {**parts, part: None}
        absent = replace(evidence, outputs=left) if is_output else replace(evidence, stores=left)
        yield Spoiling(f"{part}: absent", affected, partial(_asked, case.question, absent))


def _due(case: Case, rule: Rule) -> int | None:
    """Where the first alert of the rule's present version is that must be there."""
    must = case.windows_of(rule)[0] if isinstance(rule, WindowRule) else case.expected.findings
    for n, (_, alert) in enumerate(case.alerts):
        if alert["rule"] == rule.name and alert["alert_id"] in must:
            return n
    return None


def _asked(question: Question, evidence: Evidence) -> Spoilt:
    return question, evidence


def _labelled(case: Case, labels: Labels | None) -> Evidence:
    return replace(case.evidence, labels=labels)


def _with_output(case: Case, kind: str, records: Sequence[Record]) -> Spoilt:
    return case.question, replace(case.evidence, outputs={**case.evidence.outputs, kind: records})


def _with_replaced(case: Case, rows: Sequence[Event]) -> Spoilt:
    # A check of the same list is not run again.
    question, evidence = _with_store(case, FILES, list(case.evidence.stores[FILES]))
    return question, replace(evidence, replaced=rows)


def _with_store(case: Case, name: str, content: Any) -> Spoilt:
    return case.question, replace(case.evidence, stores={**case.evidence.stores, name: content})


def _changed(case: Case, kind: str, at: int, change: Callable[[dict[str, Any]], None]) -> Spoilt:
    """The run with one message of an output changed."""
    records = [record for record, _ in case.outputs[kind].events]
    event = json.loads(records[at].value or b"")
    change(event)
    records[at] = replace(records[at], value=json.dumps(event).encode())
    return _with_output(case, kind, records)


def _exchanged(case: Case, kind: str, at: int, other: int, columns: Iterable[str]) -> Spoilt:
    """The run with these columns of two messages exchanged."""
    events = {n: json.loads(case.outputs[kind].events[n][0].value or b"") for n in (at, other)}
    for name in columns:
        events[at][name], events[other][name] = events[other][name], events[at][name]
    records = [record for record, _ in case.outputs[kind].events]
    for n, event in events.items():
        records[n] = replace(records[n], value=json.dumps(event).encode())
    return _with_output(case, kind, records)


def _swapped(records: Sequence[Record], at: int, other: int, name: str) -> list[Record]:
    found = [*records]
    found[at] = replace(records[at], **{name: getattr(records[other], name)})
    found[other] = replace(records[other], **{name: getattr(records[at], name)})
    return found


def _and(records: Sequence[Record], value: bytes) -> list[Record]:
    """The records and one more, behind the last."""
    nothing = Record("", 0, -1, 0, None, None)  # a run may have no dead letter
    last = max(records, key=lambda record: record.offset, default=nothing)
    return [*records, replace(last, offset=last.offset + 1, value=value)]


def _behind(records: Sequence[Record], one: Record, value: bytes) -> list[Record]:
    """The records and one more, right behind one of them."""
    moved = [
        replace(each, offset=each.offset + (each.partition == one.partition and each.offset > one.offset))
        for each in records
    ]
    at = records.index(one) + 1
    return [*moved[:at], replace(one, offset=one.offset + 1, value=value), *moved[at:]]


def _without(among: Sequence[Any], places: set[int]) -> list[Any]:
    return [each for n, each in enumerate(among) if n not in places]


def _two(among: Sequence[Any], of: Callable[[Any], Any]) -> tuple[Any, Any]:
    """One of them near the middle, and another that differs from it."""
    middle = among[len(among) // 2]
    return middle, next((each for each in among if of(each) != of(middle)), among[0])


def _from_the_middle(among: Sequence[int]) -> list[int]:
    """All of them, those near the ends last: what is near an end may still be open."""
    middle = len(among) // 2
    return [*among[middle:], *among[:middle]]


def _place(letter: Event) -> tuple[Any, ...]:
    return letter["topic"], letter["partition"], letter["offset"]


def _alter(name: str, kind: str, event: dict[str, Any]) -> None:
    event[name] = _other(event.get(name), kind)


def _set(name: str, value: Any, event: dict[str, Any]) -> None:
    event[name] = value


def _alter_in(name: str, alert: dict[str, Any]) -> None:
    alert["operands"][name] = _other(alert["operands"].get(name), "text")


def _drop_in(name: str, alert: dict[str, Any]) -> None:
    del alert["operands"][name]


NOT_NULL: Mapping[str, Any] = {"text": "1", "whole": 1, "real": 1.5, "flag": True, "words": ["1"], "text map": {}}
"""A value of each kind of field."""


def _other(value: Any, kind: str) -> Any:
    """Another value of the same kind."""
    match value:
        case None:
            return NOT_NULL[kind]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return _other_number(value) or f"{value}1"
        case list():
            return [*value, "x"]
    return {**value, "x": "1"}


def _other_number(text: str) -> str | None:
    """Another number, if the text is one: one more digit at its end could be too little to matter."""
    try:
        return json.dumps(_other(json.loads(text), "whole")) if re.fullmatch(r"-?[0-9.eE+-]+", text) else None
    except ValueError:
        return None
