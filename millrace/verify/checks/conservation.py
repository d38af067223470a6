"""Conservation: every raw message is accounted for once, and every output has one."""

from __future__ import annotations

from millrace.oracle import Origin
from millrace.rules.outputs import DEAD_LETTERS, LATE
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import ENRICHED, place_of


def conservation(case: Case) -> Found:
    """Raw messages = accepted + refused, each in exactly one place."""
    there, accepted, refused = _there(case), set(case.copies), _refused(case)
    offenders = [f"{place_of(origin)} is neither enriched nor a dead letter" for origin in nowhere(case)]
    offenders += [f"{place_of(origin)} is both enriched and a dead letter" for origin in accepted & refused]
    offenders += [f"{place_of(origin)} came out without a raw message" for origin in (accepted | refused) - there]
    figures = {
        "raw": len(there),
        "accepted": len(accepted),
        "refused": len(refused),
        "copies": len(case.enriched) - len(accepted),
    }
    return Found(figures, sorted(offenders))


def nowhere(case: Case) -> set[Origin]:
    """The raw messages without an output, but for those that were in flight at a restart."""
    return _there(case) - case.copies.keys() - _refused(case) - case.losses.in_flight


def _there(case: Case) -> set[Origin]:
    return {(record.topic, record.partition, record.offset) for record in case.judged}


def _refused(case: Case) -> set[Origin]:
    kinds = {record.topic for record in case.judged}
    return {origin for origin, reason in case.letters if reason != LATE and origin[0] in kinds}


CHECKER = Checker(
    "conservation",
    "Is every raw message either accepted or refused, and only once?",
    conservation,
    needs=(ENRICHED, DEAD_LETTERS.name),
)
