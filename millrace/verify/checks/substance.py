"""Substance: something was judged, so that ok means something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

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
    figures |= holes({each.name: case.evidence.raw.get(each.name) or () for each in case.question.use.raw}, {})
    figures |= {"accepted": len(case.expected.accepted), "per-event findings": len(case.expected.findings)}
    return Found(figures)


def holes(raw: Mapping[str, Sequence[Record]], ends: Mapping[tuple[str, int], int]) -> dict[str, Figure]:
    """How many offsets up to the last message of each partition have none, from its first message or these ends on.

    A message that Kafka lost leaves one; so do transactions, of any sender, whose markers have offsets of their own.
    """
    found: dict[str, Figure] = {}
    for kind, records in raw.items():
        offsets: dict[int, set[int]] = defaultdict(set)
        for record in records:
            offsets[record.partition].add(record.offset)
        spans = (max(own) + 1 - ends.get((kind, number), min(own)) - len(own) for number, own in offsets.items())
        if count := sum(spans):
            found[f"{kind}: offsets without a message"] = count
    return found


CHECKER = Checker("substance", "Was there anything to judge?", substance)
