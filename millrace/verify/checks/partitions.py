"""Partitions: what is written under a key is in its partition, as each engine's producer chooses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from millrace.oracle import Record
from millrace.traffic.planned import KEYS, partition_of
from millrace.traffic.runs import Run
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.acknowledged import unrecorded
from millrace.verify.evidence import place
from millrace.verify.recorded import sent_for_ms, span_ms


def partitions(case: Case) -> Found | Undecided:
    """The outputs that are elsewhere; where a run is not recorded, nothing shows of which outputs that can be said."""
    outputs, why = unchanged(case), [*unrecorded(case), *_misrecorded(case)]
    if why and not outputs and any(case.evidence.outputs.values()):
        return Undecided("; ".join(why), {"outputs": 0}, is_settled=True)
    found, counts = judged(outputs, case.evidence.partitions), case.evidence.partitions
    if isinstance(found, Found) and len(set(counts.values())) > 1:
        numbers = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
        uneven = f"the topics of a pattern have one number of partitions, and were some added by hand? {numbers}"
        return Undecided(uneven, found.figures)
    return found


def notes(case: Case) -> Iterator[str]:
    """A line if outputs were not judged."""
    counts, outputs = case.evidence.partitions, unchanged(case)
    if left := [kind for kind in counts if case.evidence.outputs.get(kind) and kind not in outputs]:
        of = f" of {', '.join(left)}" if outputs else ""
        yield (
            f"no output{of} is held against the partition of its key: only those are of topics that had nothing before "
            "the first recorded run, and then as many partitions as now"
        )


def judged(outputs: Mapping[str, Sequence[Record]], counts: Mapping[str, int]) -> Found | Undecided:
    """The same of these outputs, by the number of partitions of each topic."""
    elsewhere = list[str]()
    for kind, records in outputs.items():
        for each in records:
            if each.key and each.partition != (own := partition_of(each.key, counts[kind])):
                elsewhere.append(f"{place(each)} is under the key {each.key!r}, of partition {own}")
    figures = {"outputs": sum(map(len, outputs.values())), "elsewhere": len(elsewhere)}
    if elsewhere:
        why = "outputs are in partitions of other keys: were some added by hand?"
        return Undecided(why, figures, tuple(elsewhere))
    return Found(figures)


def unchanged(case: Case) -> dict[str, Sequence[Record]]:
    """The outputs whose topics had nothing before the first run, and then as many partitions as now.

    A run records the partitions of the judged topic; those of outputs are added with them, unless by hand. Whoever
    wrote to a topic before may have an old list of them.
    """
    first = _first(case)
    if first is None:
        return {}
    since_ms, then = first.start_ms - case.question.bounds.clocks_ms, len(first.about.get(KEYS, ()))
    return {
        kind: records
        for kind, count in case.evidence.partitions.items()
        if count == then and (records := case.evidence.outputs.get(kind))
        if all(record.ingest_ms >= since_ms for record in records)
    }


def _first(case: Case) -> Run | None:
    return min(case.question.runs, key=lambda run: run.start_ms, default=None)


def _misrecorded(case: Case) -> Iterator[str]:
    """Why the first run had not as many partitions as it records: its messages are in more, or there are fewer now.

    What came after it may be in partitions that were added: so its time ends early by what clocks may differ, and that
    of an interrupted run with what it sent.
    """
    first = _first(case)
    if first is None or not (then := len(first.about.get(KEYS, ()))):
        return
    since_ms, until_ms = span_ms(first)
    until_ms = until_ms if first.is_complete else since_ms + sent_for_ms(first)
    until_ms -= case.question.bounds.clocks_ms
    reached = {each.partition + 1 for each in case.judged if since_ms <= each.ingest_ms <= until_ms}
    least, most = max(reached, default=0), case.evidence.partitions.get(case.question.use.judged.name, then)
    if not least <= then <= most:
        has = f"messages of its time are in {least}" if least > then else f"there are {most} now"
        yield f"the run '{first.name}' is recorded with {then} partitions, and {has}"


CHECKER = Checker("partitions", "Is every output in the partition of its key?", partitions, needs_inputs=False)
