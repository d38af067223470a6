"""What the first oracle makes of a tape, in the form of the second one, and where they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millrace import oracle
from millrace.oracle import Event, Finding, Judged, Origin, Record
from millrace.rules import Rule, UseCase, WindowRule
from tests.second import relational
from tests.second.relational import EVER, Begun, Outcome, Row


def first(use: UseCase, rules: Sequence[Rule], tape: Sequence[Record], begun: Begun = EVER) -> Outcome:
    """What becomes of a tape of raw and reference messages, by `millrace.oracle`."""
    refused: dict[Origin, str] = {}
    enriched: dict[Origin, Row] = {}
    findings: list[Finding] = []
    for each in judged(use, rules, tape, refused, begun):
        if each.reason is not None:
            refused[each.record.origin] = each.reason
        elif each.record.topic == use.judged.name and each.event is not None:
            enriched[each.record.origin] = dict(each.event)
            findings += each.findings
    accepted = list(enriched.values())
    for rule in rules:
        if isinstance(rule, WindowRule):
            findings += oracle.window_findings(rule, accepted)
    alerts = {finding.alert_id: _alert(finding) for finding in findings}
    assert len(alerts) == len(findings), "two findings have one alert id"
    return Outcome(refused, enriched, alerts, {s.name: oracle.summary_rows(s, accepted) for s in use.summaries})


def judged(
    use: UseCase,
    rules: Sequence[Rule],
    tape: Sequence[Record],
    refused: dict[Origin, str] | None = None,
    begun: Begun = EVER,
) -> Iterator[Judged]:
    """What `millrace.oracle` makes of each message of a raw topic; refused reference data is put into `refused`."""
    references: dict[str, dict[str, Event]] = {each.name: {} for each in use.references}
    places = {record.origin: n for n, record in enumerate(tape)}

    def lacked(record: Record) -> list[str]:
        return [name for name, since in begun.items() if places[record.origin] < since]

    own = _raw(use, tape, references, {} if refused is None else refused)
    return oracle.judge(use, rules, own, references, lacked=lacked)


def differences(use: UseCase, rules: Sequence[Rule], tape: Sequence[Record], begun: Begun = EVER) -> list[str]:
    """Where the two readings of one declaration differ; each as a line."""
    one, other = first(use, rules, tape, begun), relational.outcome(use, rules, tape, begun)
    return [
        *_differing("refused", one.refused, other.refused),
        *_differing("enriched", one.enriched, other.enriched),
        *_differing("alert", one.alerts, other.alerts),
        *(
            line
            for name in one.summaries
            for line in _differing(f"summary {name}", one.summaries[name], other.summaries[name])
        ),
    ]


def _raw(
    use: UseCase, tape: Sequence[Record], references: dict[str, dict[str, Event]], refused: dict[Origin, str]
) -> Iterator[Record]:
    """The messages of raw topics; those of reference data are taken in on the way."""
    kinds = {each.name: each for each in use.references}
    for record in tape:
        if record.topic not in kinds:
            yield record
        elif (reason := oracle.refer(kinds[record.topic], references[record.topic], record)) is not None:
            refused[record.origin] = reason


def _alert(finding: Finding) -> Row:
    return {
        "rule": finding.rule,
        "key": finding.key,
        "subject": finding.subject,
        "event_ids": list(finding.event_ids),
        "operands": dict(finding.operands) or None,
        "at_ms": finding.at_ms,
        "window_start_ms": finding.window_start_ms,
    }


def _differing(what: str, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Iterator[str]:
    for key in {**one, **other}:
        if not _is_same(one.get(key), other.get(key)):
            yield f"{what} {key}:\n  first  {one.get(key)}\n  second {other.get(key)}"


def _is_same(one: Any, other: Any) -> bool:
    """Equal values of one type, up to the last digits of a real number, and zeros of one sign."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) and (one != 0 or repr(one) == repr(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_is_same(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)
