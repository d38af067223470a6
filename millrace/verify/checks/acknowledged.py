"""Acknowledged: the raw topics hold every message that Kafka acknowledged to the senders of the recorded runs."""

from __future__ import annotations

from collections import Counter

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found


def acknowledged(case: Case) -> Found:
    """The raw topics with fewer messages than were acknowledged; others may have sent more, as canaries do."""
    sent: Counter[str] = Counter()
    for run in case.question.runs:
        sent.update({kind: count for kind, count in run.by_topic.items() if kind in case.raw})
    canaries = case.question.use.canaries
    marks = tuple(mark.encode() for mark in canaries.marks.values()) if canaries else ()
    there = {
        kind: sum(not (record.key or b"").startswith(marks) for record in case.evidence.raw.get(kind) or ())
        for kind in sent
    }
    offenders = [
        f"{kind}: {count} messages were acknowledged, the topic holds {there[kind]}"
        for kind, count in sent.items()
        if there[kind] < count
    ]
    return Found({"runs": len(case.question.runs), **sent}, offenders)


CHECKER = Checker(
    "acknowledged", "Do the raw topics hold every message that was acknowledged?", acknowledged, is_final=True
)
