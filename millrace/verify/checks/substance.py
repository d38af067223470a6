"""Substance: something was judged, so that ok means something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from millrace.oracle import Record
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.verdict import Figure


def substance(case: Case) -> Found | Undecided:
    """How many messages went in, and how many were accepted."""
    if not case.judged:
        return Undecided("the raw topic is empty")
    if not case.expected.accepted:
        return Undecided("no event was accepted")
    figures: dict[str, Figure] = {kind: len(records) for kind, records in case.raw.items()}
    figures |= {
        f"{each.name}: offsets without a message": holes
        for each in case.question.use.raw
        if (holes := _holes(case.evidence.raw.get(each.name) or ()))
    }
    figures |= {"accepted": len(case.expected.accepted), "per-event findings": len(case.expected.findings)}
    return Found(figures)


def _holes(records: Sequence[Record]) -> int:
    """How many offsets between the first and the last message of each partition have none.

    A message that Kafka lost leaves one; so do transactions, of any sender, whose markers have offsets of their own.
    """
    offsets: dict[int, set[int]] = defaultdict(set)
    for record in records:
        offsets[record.partition].add(record.offset)
    return sum(max(own) - min(own) + 1 - len(own) for own in offsets.values())


CHECKER = Checker("substance", "Was there anything to judge?", substance)
