"""Acknowledged: the raw topics hold every message that Kafka acknowledged to the senders of the recorded runs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from millrace.oracle import Record
from millrace.rules import UseCase
from millrace.rules.outputs import HOP
from millrace.traffic.runs import Run, is_within
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import RUNS
from millrace.verify.planned import HOPS_MS
from millrace.verify.recorded import contradictions, span_ms
from millrace.verify.verdict import Figure


def acknowledged(case: Case) -> Found | Undecided:
    """The raw topics with fewer or other messages than were acknowledged; others may have sent more, as canaries do.

    Where the plan of a run gives its messages again, each is looked up. Of a run that is not recorded, none can be.
    """
    runs, sent = case.question.runs, Counter[str]()
    for run in runs:
        sent.update({kind: count for kind, count in run.by_topic.items() if kind in case.raw})
    arrived_ms = {
        kind: [record.ingest_ms for record in without_canaries(case.question.use, kind, records or ())]
        for kind, records in case.evidence.raw.items()
    }
    offenders = [
        f"{kind}: {count} messages were acknowledged, the topic holds {len(arrived_ms[kind])}"
        for kind, count in sent.items()
        if len(arrived_ms[kind]) < count
    ]
    for run in runs:
        offenders += _contradictions(case, run, arrived_ms)
    figures: dict[str, Figure] = {"runs": len(runs), "runs compared with their plans": case.planned.compared, **sent}
    figures |= {
        f"{each.name}: of no recorded run": others
        for each in case.question.use.raw
        if (others := len(arrived_ms[each.name]) - sent[each.name]) > 0
    }
    offenders += case.planned.offenders
    for records in () if case.question.is_finite else case.evidence.raw.values():  # a backfill has the times of events
        offenders += case.ahead(records or ())
    if not offenders and (why := unrecorded(case)):
        return Undecided("; ".join(why), figures, is_settled=True)
    return Found(figures, offenders)


def unrecorded(case: Case) -> list[str]:
    """Why the record of runs is not whole: a line is missing, or bare hops, which only senders send, show one."""
    return [*case.question.unrecorded, *hops_of_no_run(case.question.runs, case.evidence.hop_sent_ms)]


def hops_of_no_run(runs: Sequence[Run], sent_ms: Sequence[int]) -> Iterator[str]:
    """Bare hops outside the recorded runs, or else more of them within one than the runs of that time count.

    Of a run that was interrupted, the last hop may not be counted.
    """
    spans_ms = [(since_ms, until_ms + HOPS_MS) for since_ms, until_ms in map(span_ms, runs)]
    remedy = "wait until its sender has ended, or restore the record of the run"
    if outside := [each for each in sent_ms if not is_within(spans_ms, each)]:
        yield f"no recorded run has the bare hops from {min(outside)} to {max(outside)}: {remedy}"
        return
    ordered = sorted(sent_ms)
    for since_ms, until_ms in spans_ms:
        beside = [run for run, span in zip(runs, spans_ms, strict=True) if span[0] <= until_ms and since_ms <= span[1]]
        most = sum(run.by_topic.get(HOP, 0) + (not run.is_complete) for run in beside)
        if (there := bisect_right(ordered, until_ms) - bisect_left(ordered, since_ms)) > most:
            yield f"{there} bare hops are from {since_ms} to {until_ms}, and the recorded runs sent {most}: {remedy}"


def notes(case: Case) -> Iterator[str]:
    """A line if generated runs were not compared with their plans: only their messages count then."""
    generated = sum("plan" in run.about for run in case.question.runs)
    if (left := generated - case.planned.compared) > 0:
        yield (
            f"{left} of {generated} generated run(s) could not be made again from the plan, so their messages are "
            "counted, and not compared: another version of millrace, other traffic of the use, another key of a token, "
            "less than a hundredth of an interrupted run, or an altered record"
        )


def without_canaries(use: UseCase, kind: str, records: Iterable[Record]) -> Iterator[Record]:
    """The messages of a raw topic that no canary sent.

    A key shows its sender only where it is that of judged events: another key may begin by chance as a mark does.
    """
    if use.canaries is None or kind not in {each.name for each in use.raw if each.key == use.judged.key}:
        return iter(records)
    mark = use.canaries.marks[use.judged.key].encode()
    return (record for record in records if not (record.key or b"").startswith(mark))


def _contradictions(case: Case, run: Run, arrived_ms: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """What of a record contradicts the rest of it, the topics, or the time at which it was read."""
    clocks_ms, (since_ms, until_ms) = case.question.bounds.clocks_ms, span_ms(run)
    for why in contradictions(run):
        yield f"the record of the run '{run.name}' is wrong: {why}"
    for kind in run.by_topic.keys() & {each.name for each in case.question.use.raw}:
        there = sum(at_ms >= since_ms - clocks_ms for at_ms in arrived_ms[kind])
        if there < run.by_topic[kind] <= len(arrived_ms[kind]):
            yield f"{kind}: {run.by_topic[kind]} messages were acknowledged since {since_ms}, {there} are there"
    last_ms = max(since_ms, until_ms if run.is_complete else 0)
    if case.evidence.read_ms and last_ms > case.evidence.read_ms + clocks_ms:
        yield f"the record of the run '{run.name}' is from {since_ms} to {until_ms}, and was read before"


CHECKER = Checker(
    "acknowledged",
    "Do the raw topics hold every message that was acknowledged?",
    acknowledged,
    reads=(RUNS,),
    is_final=True,
)
