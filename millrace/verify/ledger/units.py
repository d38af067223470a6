"""Judges the raw messages whose outputs are right, and those that have waited too long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from millrace import oracle
from millrace.oracle import Finding, Origin
from millrace.rules import WindowRule
from millrace.rules.outputs import DEAD_LETTERS
from millrace.verify.checks.earlier_alerts import lacking
from millrace.verify.evidence import ENRICHED, Versions
from millrace.verify.expected import Settled, read_apart, settled, with_other_streams
from millrace.verify.ledger.state import Unit
from millrace.verify.ledger.step import NOTHING, Step, letter_digest


def begin(step: Step) -> None:
    """Hold no event against a changed rule that waits for its outputs: which version judged it is not known yet."""
    state, rules = step.state, [rule for rule in step.question.rules if not isinstance(rule, WindowRule)]
    before, state.versions = state.versions, {rule.name: rule.version for rule in rules}
    if before is None or before == state.versions:
        return
    changed = sorted({name for name, _ in before.items() ^ state.versions.items()})
    for unit in state.units.values():
        event = unit.judged.event
        if event is not None:
            key, identity = event[step.use.judged.key], oracle.identity_of(step.use.judged, event, unit.judged.record)
            state.undecided |= {(name, key, identity): step.cut_ms for name in changed}
    of_keys = ((key, [rule for rule in own if rule not in changed]) for key, own in state.apart.items())
    state.apart = {key: own for key, own in of_keys if own}  # another version of a rule begins without state


def judge(step: Step) -> None:
    """Judge the raw messages whose outputs are right, and those that have waited too long."""
    state = step.state
    ripe_ms = max(step.bounds.skew_ms, step.bounds.ahead_ms)
    one_of = -(-len(state.units) // step.limits.forms)
    steps = with_other_streams(step.question.rules)
    by_event: dict[tuple[str, str], list[str]] = defaultdict(list)
    for identity, own in state.alerts.items():
        for _, (_, alert) in own:
            if not isinstance(step.rules.get(alert["rule"]), WindowRule) and alert["event_ids"]:
                by_event[alert["key"], alert["event_ids"][0]].append(identity)
    for origin, unit in list(state.units.items()):
        if not step.is_last and unit.arrived_ms + ripe_ms > step.cut_ms:
            continue
        is_over = step.is_over(unit.since_ms)
        if unit.judged.reason is not None:
            if is_over or _is_refused_rightly(step, unit):
                _judge_refused(step, origin, unit)
            continue
        copies = [event for _, event in unit.copies]
        if unit.apart is None:
            unit.apart = read_apart(steps, unit.judged, step.views, state.apart)
        unjudged = _unjudged(step, unit)
        found = _decided(step, unit, settled(unit.judged, copies, unjudged, step.views, unit.apart))
        is_right = bool(copies) and not unit.letters and all(map(step.is_alerted, _needed(step, unit, found)))
        if is_over or (is_right and not lacking(step.case, unit.judged, copies, {*unjudged, *unit.apart})):
            _judge_accepted(step, origin, unit, found, by_event)
            _keep_forms(step, origin, unit, one_of)


def _is_refused_rightly(step: Step, unit: Unit) -> bool:
    record, reasons = unit.judged.record, {letter["reason"] for _, letter in unit.letters}
    is_reference = record.topic in {each.name for each in step.use.references}
    if is_reference and not reasons and record.ingest_ms < step.question.kept_since_ms:
        return True
    return reasons == {unit.judged.reason} and not unit.copies


def _judge_refused(step: Step, origin: Origin, unit: Unit) -> None:
    del step.state.units[origin]
    step.raw[origin[0]].append(unit.judged.record)
    step.expected.refused[origin] = unit.judged.reason or ""
    step.due[DEAD_LETTERS.name] += unit.letters
    step.due[ENRICHED] += unit.copies
    digest = letter_digest(unit.letters[-1][1]) if unit.letters else NOTHING
    step.done(origin, digest)
    if origin[0] in {each.name for each in step.use.references}:
        step.state.refused[origin] = [digest]


def _judge_accepted(
    step: Step, origin: Origin, unit: Unit, found: Settled, by_event: Mapping[tuple[str, str], Sequence[str]]
) -> None:
    del step.state.units[origin]
    assert unit.judged.event is not None
    event, record = unit.judged.event, unit.judged.record
    step.raw[origin[0]].append(record)
    identity = event[step.use.judged.key], oracle.identity_of(step.use.judged, event, record)
    step.expected.judged[identity] = unit.judged
    step.expected.read_apart[origin] = unit.apart or ()
    step.expected.take(origin, found)
    step.due[DEAD_LETTERS.name] += unit.letters
    step.due[ENRICHED] += unit.copies
    step.judge_alerts(by_event.get(identity, ()))
    digests = [step.digest_of(copy) for _, copy in unit.copies]
    step.done(origin, digests[-1] if digests else NOTHING)
    if len(set(digests)) > 1:
        step.state.varied[origin] = [step.cut_ms, *dict.fromkeys(digests)]
    if (counted := step.state.counted.get(origin)) is not None:
        counted.event = {name: found.event.get(name) for name in step.kept}
        counted.out_ms = max((copy.ingest_ms for copy, _ in unit.copies), default=0)


def _decided(step: Step, unit: Unit, found: Settled) -> Settled:
    """The form of an event without the findings of rules that changed while it waited."""
    if not step.state.undecided:
        return found
    findings = tuple(each for each in found.findings if not step.is_undecided(each.rule, unit.judged))
    return replace(found, findings=findings)


def _keep_forms(step: Step, origin: Origin, unit: Unit, one_of: int) -> None:
    """Keep which rules an event shows, and what it may show of other streams.

    That is kept of one of so many events, where it is not the same anyway.
    """
    is_sampled, forms = not origin[2] % one_of, [copy for _, copy in unit.copies]
    if (is_sampled or step.state.sampled_ms < step.cut_ms) and step.views.has_several(unit.judged):
        if not is_sampled:
            step.state.sampled_ms = step.cut_ms
        elif len(digests := step.digests_of_views(unit.judged)) > 1:
            step.state.forms[origin] = [step.cut_ms, *digests]
            forms += (view for view, _ in step.views.of(unit.judged))
    step.keep_flags(origin, forms)


def _needed(step: Step, unit: Unit, found: Settled) -> Iterator[Finding]:
    """The findings whose alerts must be there: an event that came out before its rule changed needs none."""
    out_ms = max((record.ingest_ms for record, _ in unit.copies), default=0)
    for finding in found.findings:
        if out_ms >= step.question.in_force.get(finding.rule, Versions()).since_ms:
            yield finding


def _unjudged(step: Step, unit: Unit) -> set[str]:
    """The flags and fields of an event whose present version came after it, or which a rule had that is gone."""
    if not unit.copies:
        return set()
    out_ms = min(record.ingest_ms for record, _ in unit.copies)
    later = {name for name, versions in step.question.in_force.items() if versions.since_ms > out_ms}
    later |= {name for name in step.redeclared if step.is_undecided(name, unit.judged)}
    return {each for name in later for each in step.case.written_by(name)}
