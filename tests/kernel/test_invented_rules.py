"""The kernel reads, remembers and judges as the oracle does, of invented uses and tapes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.oracle import (
    Event,
    Finding,
    Judged,
    Origin,
    Record,
    Refusal,
    accept,
    summary_rows,
    value_base64,
    window_findings,
)
from millrace.rules import ALERTS, DEAD_LETTERS, ENRICHMENT, EventRule, UseCase, WindowRule
from millrace.rules.memory import StageMemory
from tests.kernel.conftest import Partner
from tests.second.both import judged
from tests.second.invented import CASES, Invented, Sent, tape_of
from tests.second.test_invented import AN_ID_IS_FORGOTTEN, PIPED, PIPES

some = settings(max_examples=settings.default.max_examples // 4)


@some
@given(CASES)
def test_the_kernel_reads_and_remembers_what_the_oracle_does(
    partner: Partner, case: tuple[Invented, tuple[Sent, ...]]
) -> None:
    use, states = case[0].use, dict[str, str]()
    stage = StageMemory(use, tuple(rule for rule in use.rules if isinstance(rule, EventRule)))
    tape = tape_of(use, case[1])
    for record in tape:
        assert read(partner, use, record) == meant(use, record)
    for each in judged(use, use.rules, tape):
        if each.event is None:
            continue
        event, is_judged = dict(each.event), each.record.topic == use.judged.name
        # A state that is restored for every event is one restart after the other.
        before, states[event["key"]] = partner.fold(
            stage.measures, states.get(event["key"]), each.record.topic, event, is_judged
        )
        if is_judged:
            assert shown(before) == shown(dict(remembered(stage, each)))


@some
@given(CASES)
@example((PIPED, PIPES))
@example((Invented(has_ids=True), AN_ID_IS_FORGOTTEN))
def test_the_stage_writes_what_the_oracle_does(partner: Partner, case: tuple[Invented, tuple[Sent, ...]]) -> None:
    use = case[0].use
    tape = in_time(use, case[1])
    written = partner.judge(use, tape)
    assert facts(written) == due(use, tape)
    assert len(facts(written)) == len(written)
    keys = {"enriched": use.enriched.key, ALERTS.name: ALERTS.key, DEAD_LETTERS.name: DEAD_LETTERS.key}
    assert [key for _, key, _ in written] == [content[keys[kind]] for kind, _, content in written]


@some
@given(CASES)
def test_what_comes_again_after_a_crash_changes_nothing(
    partner: Partner, case: tuple[Invented, tuple[Sent, ...]]
) -> None:
    use = replace(case[0], looks_up=False).use if not reads_labels(case[0]) else Invented().use
    tape = in_time(use, case[1])
    assert facts(partner.judge(use, tape, crashes=[3] * len(tape))) == due(use, tape)


@some
@given(CASES, st.booleans())
def test_the_windows_write_what_the_oracle_does(
    partner: Partner, case: tuple[Invented, tuple[Sent, ...]], is_crashing: bool
) -> None:
    use = case[0].use
    tape = in_time(use, case[1])
    crashes = [1] if is_crashing else []
    # A stage that starts anew does not matter here: only the windows' own crashes do.
    written = partner.judge(use, tape, crashes, windows=True)
    assert in_windows(written) == due_in_windows(use, tape)


def in_time(use: UseCase, sent: Sequence[Sent]) -> list[Record]:
    """The tape of a clock that is never set back; of one millisecond, reference data comes first, as in a verdict."""
    now_ms = 0
    tape = []
    for record in tape_of(use, sent):
        now_ms = max(now_ms, record.ingest_ms)
        tape.append(replace(record, ingest_ms=now_ms))
    references = {each.name for each in use.references}
    return sorted(tape, key=lambda record: (record.ingest_ms, record.topic not in references))


def in_windows(written: Iterable[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """The alerts of windows and the rows of summaries, by what identifies them."""
    found: dict[str, Any] = {}
    for kind, _, content in written:
        assert content.pop("emit_ms") > 0
        if kind == ALERTS.name:
            content["operands"] = {n: None if v is None else text_of(v) for n, v in content["operands"].items()}
        identity = content["alert_id"] if kind == ALERTS.name else json.dumps(content)
        assert found.setdefault(identity, content) == content
    return found


def due_in_windows(use: UseCase, tape: Sequence[Record]) -> dict[str, Any]:
    """What the oracle expects of the windows."""
    accepted = [each.event for each in judged(use, use.rules, tape) if is_accepted(use, each) and each.event]
    places = {(e["source_topic"], e["source_partition"], e["source_offset"]): e for e in accepted}
    found: dict[str, Any] = {}
    for rule in use.rules:
        for finding in window_findings(rule, accepted) if isinstance(rule, WindowRule) else ():
            events = [places[origin] for origin in finding.origins]
            sent_ms = [event["sent_ms"] for event in events if event["sent_ms"] is not None]
            found[finding.alert_id] = {
                "alert_id": finding.alert_id,
                "rule": finding.rule,
                "rule_version": finding.rule_version,
                "key": finding.key,
                "subject": finding.subject,
                "window_start_ms": finding.window_start_ms,
                "event_ids": list(finding.event_ids),
                "operands": {n: None if v is None else text_of(v) for n, v in finding.operands.items()},
                "at_ms": finding.at_ms,
                "sent_ms": max(sent_ms, default=None),
                "ingest_ms": max(event["ingest_ms"] for event in events),
            }
    for summary in use.summaries:
        for (start_ms, *keys), numbers in summary_rows(summary, accepted).items():
            end_ms = start_ms + summary.window.size_ms
            row = {"summary": summary.name, "window_start_ms": start_ms, "window_end_ms": end_ms}
            row |= dict(zip(summary.keys, keys, strict=True)) | numbers
            found[json.dumps(row)] = row
    return found


def is_accepted(use: UseCase, each: Judged) -> bool:
    return each.reason is None and each.record.topic == use.judged.name


def reads_labels(invented: Invented) -> bool:
    return re.search(r"\b(label|offset)\b", repr([invented.windows, invented.summaries])) is not None


def facts(written: Iterable[tuple[str, str, dict[str, Any]]]) -> set[str]:
    """What was written, without the times of writing and repetitions; numbers by their texts."""
    found = [(kind, {n: v for n, v in content.items() if n != "emit_ms"}) for kind, _, content in written]
    for _, content in found:
        if "operands" in content:
            content["operands"] = {n: None if v is None else text_of(v) for n, v in content["operands"].items()}
    return {repr(each) for each in found}


def due(use: UseCase, tape: Sequence[Record]) -> set[str]:
    """What the oracle expects of the stage."""
    refused: dict[Origin, str] = {}
    events = {each.name: each for each in use.raw}
    found: list[tuple[str, dict[str, Any]]] = []
    for each in judged(use, use.rules, tape, refused):
        record, event = each.record, each.event
        place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        ingest = {"ingest_ms": record.ingest_ms}
        if each.reason is not None:
            value = value_base64(events[record.topic], record.value, each.reason)
            letter = {"reason": each.reason, **place, **ingest, "stage": "events", "value_base64": value}
            found.append((DEAD_LETTERS.name, letter))
        elif record.topic == use.judged.name and event is not None:
            found.append(("enriched", dict(event)))
            found += [(ALERTS.name, alert_of(finding, event, record)) for finding in each.findings]
    return {repr(each) for each in found}


def alert_of(finding: Finding, event: Event, record: Record) -> dict[str, Any]:
    """The alert of a finding, in the order of the topic's columns."""
    return {
        "alert_id": finding.alert_id,
        "rule": finding.rule,
        "rule_version": finding.rule_version,
        "key": finding.key,
        "subject": finding.subject,
        "window_start_ms": None,
        "event_ids": list(finding.event_ids),
        "operands": {name: None if value is None else text_of(value) for name, value in finding.operands.items()},
        "at_ms": finding.at_ms,
        "sent_ms": event["sent_ms"],
        "ingest_ms": record.ingest_ms,
    }


def text_of(value: Any) -> str:
    """A value in the words of an alert; numbers in one spelling, for each language has its own."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return repr(float(text)) if "." in text or "e" in text.lower() else text
    except ValueError:
        return text


def read(partner: Partner, use: UseCase, record: Record) -> list[Any]:
    """The reason and the fields, by the kernel."""
    event_type = next(each for each in (*use.raw, *use.references) if each.name == record.topic)
    return list(map(repr, partner.read(event_type, record.value, record.ingest_ms)))


def meant(use: UseCase, record: Record) -> list[Any]:
    """The reason and the fields, by the oracle."""
    event_type = next(each for each in (*use.raw, *use.references) if each.name == record.topic)
    event: Event | Refusal = accept(event_type, record.value, record.ingest_ms)
    if isinstance(event, Refusal):
        return list(map(repr, [event.reason, *(None for _ in event_type.readable)]))
    return list(map(repr, [None, *event.values()]))


def remembered(stage: StageMemory, each: Judged) -> Iterator[tuple[str, Any]]:
    """The remembered values by the stage's columns."""
    declared = {rule.name: rule.remembers for rule in stage.rules} | {ENRICHMENT: stage.use.enrichment.remembers}
    for owner, values in each.before.items():
        for name, value in values.items():
            yield stage.column(declared[owner], name), value


def shown(values: dict[str, Any]) -> dict[str, str]:
    """Values as text, which shows what == does not: 1 and 1.0, the two zeros."""
    return {name: repr(values[name]) for name in sorted(values)}
