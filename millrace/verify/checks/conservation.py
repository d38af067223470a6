"""Conservation: every raw message is accounted for once, and every output has one."""

from __future__ import annotations

from millrace.rules.outputs import DEAD_LETTERS, LATE
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import ENRICHED, place_of


def conservation(case: Case) -> Found:
    """Raw messages = accepted + refused, each in exactly one place."""
    there = {(record.topic, record.partition, record.offset) for record in case.judged}
    kinds = {record.topic for record in case.judged}
    refused = {origin for origin, reason in case.letters if reason != LATE and origin[0] in kinds}
    accepted = set(case.copies)
    offenders = [f"{place_of(origin)} is neither enriched nor a dead letter" for origin in there - accepted - refused]
    offenders += [f"{place_of(origin)} is both enriched and a dead letter" for origin in accepted & refused]
    offenders += [f"{place_of(origin)} came out without a raw message" for origin in (accepted | refused) - there]
    figures = {
        "raw": len(there),
        "accepted": len(accepted),
        "refused": len(refused),
        "copies": len(case.enriched) - len(accepted),
    }
    return Found(figures, sorted(offenders))


CHECKER = Checker(
    "conservation",
    "Is every raw message either accepted or refused, and only once?",
    conservation,
    needs=(ENRICHED, DEAD_LETTERS.name),
)
