"""One segment of a stream: its messages are judged from the state of all earlier ones.

All topics are cut at one moment, by the times at which they had their messages. So a segment is the same whenever it is
judged. A raw message whose outputs are not all there waits for the next segments, and so do outputs without a raw
message, windows that may still grow and windows without their results. What is right is judged at once; what is not is
judged when its bound has passed, and then the checks of a whole run find it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from millrace import oracle
from millrace.oracle import Origin, Seen
from millrace.rules import ALERTS, WindowRule
from millrace.verify import keys
from millrace.verify.case import Case, Question, faults_in, problems
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks import (
    alert_ids,
    alerts,
    conservation,
    declarations,
    earlier_alerts,
    enrichment,
    lateness,
    loss,
    numbers,
    order,
    partitions,
    readable,
    refusals,
    repetitions,
)
from millrace.verify.evidence import ENRICHED, FILES, Read, place_of, read
from millrace.verify.ledger import (
    counting,
    files,
    labelled,
    memories,
    memory,
    outputs,
    raw,
    tables,
    units,
    waiting,
    windows,
)
from millrace.verify.ledger.case import SegmentCase
from millrace.verify.ledger.state import Done, State
from millrace.verify.ledger.step import OUTPUTS, Inputs, Limits, Step
from millrace.verify.verdict import OFFENDERS_MOST, Check, Status, together


@dataclass(frozen=True)
class Segment:
    """The result of judging one segment."""

    number: int
    since_ms: int
    cut_ms: int
    checks: tuple[Check, ...]
    messages: int
    """The raw messages that arrived."""
    pending: Mapping[str, int]
    """How much is not judged yet, by what it waits for."""
    whole_until_ms: int
    """Every raw message that arrived before is judged, and all that was due because of it."""

    @property
    def status(self) -> Status:
        return together(check.status for check in self.checks)


def advance(
    state: State,
    question: Question,
    inputs: Inputs,
    cut_ms: int,
    limits: Limits | None = None,
    *,
    is_last: bool = False,
) -> Segment:
    """Judge one segment; the state becomes that of the next one. After the last one nothing more is to come."""
    step = Step(state, question, inputs, cut_ms, limits or Limits(), is_last)
    since_ms, messages = state.cut_ms, sum(map(len, inputs.raw.values()))
    faults = faults_in(question)
    parsed = {
        kind: read(inputs.outputs.get(kind, ()), problem, faults[kind]) for kind, problem in problems(question).items()
    }
    before = _out_before(step, parsed)
    files.begin(step)
    counting.begin(step)
    units.begin(step)
    raw.judge(step, parsed[ENRICHED])
    labelled.count(step)
    step.case = SegmentCase(question, step.evidence, {}, step.expected, state, _together(state.races))
    outputs.attribute(step, parsed)
    outputs.judge_late_letters(step)
    units.judge(step)
    outputs.judge_marks(step)
    outputs.take_rows(step)
    files.audit(step)
    windows.judge(step)
    outputs.judge_foreign(step)
    of_tables = list(tables.judged(step, parsed))
    if inputs.hiding:
        step.unknown[conservation.CHECKER.name] = "; ".join(inputs.hiding)
    step.expected.raced += step.raced
    step.case.outputs = {kind: replace(parsed[kind], events=tuple(step.due[kind])) for kind in OUTPUTS}
    checks = tuple(
        _checked(step, each)
        for each in (
            *_checkers(step),
            _checker_of_order(step, parsed, before),
            *_checkers_of_partitions(step),
            *of_tables,
        )
    )
    memory.forget(step)
    return Segment(
        state.number, since_ms, cut_ms, checks, messages, waiting.pending(step), waiting.whole_until_ms(step)
    )


def anchored(
    question: Question, since_ms: int, first: Mapping[str, Mapping[int, int]], ids: Seen | None = None
) -> State:
    """The state before the first segment: topics are read from these offsets, by kind and partition."""
    known = oracle.State({each.name: {} for each in question.use.references}, seen_ms={} if ids is None else ids)
    state = State(known, cut_ms=since_ms)
    state.read = {kind: dict(offsets) for kind, offsets in first.items()}
    for each in (*question.use.raw, *question.use.references):
        for partition, offset in first.get(each.name, {}).items():
            state.done[each.name, partition] = Done(offset)
            state.began[each.name, partition] = offset
            state.read_to[each.name, partition] = offset
            state.arrival.following[each.name, partition] = offset
    return state


def _checkers(step: Step) -> Iterator[Checker]:
    question = step.question
    if question.undeployed:
        yield declarations.CHECKER
    if question.lost:
        yield loss.CHECKER
    yield from (readable.CHECKER, conservation.CHECKER)
    if question.is_once:
        yield repetitions.CHECKER
    yield from (refusals.CHECKER, enrichment.CHECKER, lateness.CHECKER)
    yield from map(alerts.checker, question.rules)
    if question.in_force:
        yield earlier_alerts.CHECKER
    yield alert_ids.CHECKER
    yield from map(numbers.checker, question.summaries)
    yield from labelled.checkers(step)
    if FILES in question.stores or "hdfs" in question.stores:
        yield _checker_of_rows(step)


def _out_before(step: Step, parsed: Mapping[str, Read]) -> set[Origin | str]:
    """What came out with an earlier segment, too: the raw messages of enriched events, and the ids of alerts."""
    state = step.state
    waiting = {step.source(event) for kind, _, (_, event) in state.outputs if kind == ENRICHED}
    waiting |= {origin for origin, unit in state.units.items() if unit.copies}
    events = {
        origin
        for origin in map(step.source, (event for _, event in parsed[ENRICHED].events))
        if origin in waiting or ((done := state.done.get(origin[:2])) is not None and done.get(origin[2]) is not None)
    }
    alerts = {alert["alert_id"] for _, alert in parsed[ALERTS.name].events}
    return events | {each for each in alerts if each in state.alerts or each in state.done_alerts}


def _checker_of_order(step: Step, parsed: Mapping[str, Read], before: Collection[Origin | str]) -> Checker:
    """Of the outputs that came with this segment: what overtook others may come again with the next one."""

    def check(_: Case) -> Found | Undecided:
        found = order.judged(step.use, parsed[ENRICHED].events, parsed[ALERTS.name].events, step.source, before)
        if isinstance(found, Found) and found.offenders:
            return Undecided("events came out behind later ones of their key", found.figures, tuple(found.offenders))
        return found

    return replace(order.CHECKER, find=check, needs=(), reads=())


def _checkers_of_partitions(step: Step) -> Iterator[Checker]:
    """Of the outputs whose topics have had as many partitions for so long that no writer has an old list of them."""
    state, outputs = step.state, step.inputs.outputs
    counts = {kind: count for kind, count in step.inputs.partitions.items() if kind in outputs}
    for kind, count in counts.items():
        known = state.partitions.get(kind, (count, step.cut_ms if state.number else 0))
        state.partitions[kind] = known if known[0] == count else (count, step.cut_ms)
    since_ms = step.cut_ms - step.bounds.held_ms
    outputs = {kind: outputs[kind] for kind in counts if state.partitions[kind][1] <= since_ms}
    if counts:
        yield replace(partitions.CHECKER, find=lambda _: partitions.judged(outputs, counts))


def _checker_of_rows(step: Step) -> Checker:
    """Of the rows that were compared, and those that are missing; the others are found while they are compared."""
    unstored = list(memory.find_unstored(step)) if "hdfs" in step.question.stores else []
    memory.remember_missing(step, unstored)

    offenders = [f"missing: {place_of(origin)}" for origin in unstored]

    def check(_: Case) -> Found:
        figures = {"accepted": len(step.expected.accepted), "rows": step.rows}
        more = {"of earlier events": step.old_rows, "audited": step.audited, "taken over": step.taken_over}
        return Found(figures | {name: count for name, count in more.items() if count}, offenders)

    return Checker(FILES, "Do the files hold every accepted event exactly once?", check)


def _checked(step: Step, checker: Checker) -> Check:
    """The check of what is judged, and of the later copies of what was."""
    found, more = checker.check(step.case), step.offenders.get(checker.name, [])
    figures = dict(found.figures)
    if checker is conservation.CHECKER:
        figures |= {**step.holes, **keys.figures(step.case), "copies": int(figures.get("copies") or 0) + step.copies}
    if checker is enrichment.CHECKER and step.uncompared:
        figures["copies from before a change, not compared"] = step.uncompared
    if more:
        figures["offenders"] = int(figures.get("offenders") or 0) + len(more)
        found = replace(found, status="failed", offenders=(*found.offenders, *more)[:OFFENDERS_MOST], why="")
    if found.status == "failed" and (why := _assumption(step, checker)):
        return replace(found, status="unknown", figures=figures, why=f"assumed: {why}")
    if found.status == "ok" and checker.name in step.unknown:
        return replace(found, status="unknown", figures=figures, why=step.unknown[checker.name])
    return replace(found, figures=figures)


def _assumption(step: Step, checker: Checker) -> str:
    """Why an offender of the check may come from messages that the oracle has not seen; empty if it cannot."""
    state, rule = step.state, step.rules.get(checker.name.removeprefix("alerts: "))
    is_of_memory = checker.name == enrichment.CHECKER.name or (rule is not None and not isinstance(rule, WindowRule))
    if not state.assumed:
        return memories.doubtful(step, rule) if is_of_memory else ""
    is_of_memory |= checker.name == refusals.CHECKER.name
    # An output of a message that it lacks may come so late, and is judged so much later; a window holds it for longer.
    windows = [each.window for each in step.window_rules] + [each.window for each in step.question.summaries]
    longest_ms = max((window.closes_after_ms for window in windows), default=0)
    waits_ms = 2 * (step.limits.outstanding_ms + step.limits.grace_ms) + longest_ms
    return state.assumed if is_of_memory or step.cut_ms <= state.assumed_since_ms + waits_ms else ""


def _together(races: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for each in races:
        for name, count in each.items():
            found[name] += count
    return found
